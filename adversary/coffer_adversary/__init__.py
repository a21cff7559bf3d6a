"""The malicious host: runs of queries and writes with one mutation each, and what came of it. See
docs/security/attack.md."""
