"""`python -m epsilometer.cli` is `epsilometer`."""

from epsilometer.cli import main

main()
