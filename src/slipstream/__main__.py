"""`python -m slipstream`: the command line."""

from slipstream.cli.main import main

main()
