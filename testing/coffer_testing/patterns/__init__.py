"""The host that counts: what the stored columns of a table show to whoever holds its files, against
what is claimed.

`sight` reads a table as a host does, without a key; `measures` recovers patterns from ciphertexts
(equality, order, first differing bits, …) and holds them against the values; `claims` says what
`coffer policy check --json` promises; `fixture` makes tables in which each protection occurs alone,
beside others and linked; `judge` puts them together. See docs/security/protections.md.
"""
