"""The nominal epsilon of a target loss, as a deployment of `make ui`."""

from epsilometer.pipeline.flows.calibrate import calibrate

__all__ = ["calibrate"]
