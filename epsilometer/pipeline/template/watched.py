"""The flows that `make ui` shows and starts, deployed by prefect.yaml."""

from epsilometer.pipeline.flows.audit import audit
from epsilometer.pipeline.flows.calibrate import calibrate
from epsilometer.pipeline.flows.reaudit import reaudit

__all__ = ["audit", "calibrate", "reaudit"]
