"""An encoder-decoder for DP-BART, pruned and trained further under noise."""

from epsilometer.pipeline.flows.reproduce import stage

noise_aware = stage("noise_aware")
