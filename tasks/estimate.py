"""The empirical privacy loss of every cell, epsilon and attack, beside its claim, and what says whether to trust it."""

from epsilometer.pipeline.flows.reproduce import stage

estimate = stage("estimate")
