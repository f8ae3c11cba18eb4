"""What every training claims, by every accountant that applies."""

from epsilometer.pipeline.flows.reproduce import stage

budgets = stage("budgets")
