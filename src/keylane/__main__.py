"""`python -m keylane`: the same as the `keylane` command."""

from keylane.cli.main import main

main()
