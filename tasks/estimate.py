"""The empirical privacy loss of every cell, epsilon and attack, beside its claim."""

from epsilometer.pipeline.flows.reproduce import stage

estimate = stage("estimate")
