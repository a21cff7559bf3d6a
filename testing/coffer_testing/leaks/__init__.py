"""The reading host: runs a workload full of planted values on a cluster, and searches all that a
host can read.

`planted` makes the tables and says what to search for; `workloads` runs the queries; `host` gathers
what the untrusted side has (`dumps`, `disks`, `capture`, `pages`) and searches it; `harness` runs
it twice, in the clear as control and sealed; `report` counts and judges. See
docs/security/leaks.md.
"""
