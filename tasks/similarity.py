"""How much of the texts the rewrites keep, and which identifiers survive."""

from epsilometer.pipeline.flows.reproduce import stage

similarity = stage("similarity")
