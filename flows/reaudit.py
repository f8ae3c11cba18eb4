"""The re-audit against the accepted baseline: `python -m flows.reaudit --help`."""

from epsilometer.pipeline.flows.reaudit import main, reaudit

__all__ = ["reaudit"]

if __name__ == "__main__":
    main()
