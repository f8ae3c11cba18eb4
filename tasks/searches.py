"""What attacks find in the gradients that clients send, of one size of batches at one level."""

from epsilometer.pipeline.flows.reproduce import stage

searches = stage("searches")
