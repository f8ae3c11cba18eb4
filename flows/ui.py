"""Prefect's server, a worker and the deployments: `python -m flows.ui --help`."""

from epsilometer.pipeline.flows.ui import main

if __name__ == "__main__":
    main()
