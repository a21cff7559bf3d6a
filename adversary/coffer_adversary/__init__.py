"""The lying host: runs of queries and writes with one lie each, and what came of it. See docs/security/attack.md."""
