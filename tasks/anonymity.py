"""What rewrites hide of attributes, and what attackers infer all the same."""

from epsilometer.pipeline.flows.reproduce import stage

anonymity = stage("anonymity")
