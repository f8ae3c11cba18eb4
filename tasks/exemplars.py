"""The public exemplars that a mechanism releases, chosen among public texts."""

from epsilometer.pipeline.flows.reproduce import stage

exemplars = stage("exemplars")
