"""The figures of a question about a mechanism on a data set, and the status of its limit."""

from epsilometer.pipeline.flows.reproduce import stage

asked = stage("asked")
