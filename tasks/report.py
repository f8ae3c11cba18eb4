"""The page, its figures, and the tracked metrics."""

from epsilometer.pipeline.flows.reproduce import stage

report = stage("report")
