"""The texts that classifiers are trained on, and attackers tested on, rewritten at every epsilon."""

from epsilometer.pipeline.flows.reproduce import stage

privatize = stage("privatize")
