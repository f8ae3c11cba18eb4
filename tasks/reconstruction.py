"""What attacks read off the gradients that clients send."""

from epsilometer.pipeline.flows.reproduce import stage

reconstruction = stage("reconstruction")
