"""What clients send: their texts, and what a server knows."""

from epsilometer.pipeline.flows.reproduce import stage

sent = stage("sent")
