"""Every trial's source text rewritten at every epsilon."""

from epsilometer.pipeline.flows.reproduce import stage

rewrite = stage("rewrite")
