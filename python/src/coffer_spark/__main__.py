"""`python -m coffer_spark`: the command `coffer`."""

from coffer_spark import main

main()
