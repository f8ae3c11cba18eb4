"""Sends a webhook when a re-audit finds a greater loss: `python -m flows.alert`."""

from epsilometer.pipeline.flows.alert import main

if __name__ == "__main__":
    main()
