"""Run `python -m epsilometer.cli` as `epsilometer`."""

from epsilometer.cli import main

main()
