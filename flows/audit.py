"""The audit, its stages in the order of DVC's graph: `python -m flows.audit --help`."""

from epsilometer.pipeline.flows.audit import audit, main

__all__ = ["audit"]

if __name__ == "__main__":
    main()
