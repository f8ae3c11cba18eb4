"""Which of k texts it was whose gradient a client sent."""

from epsilometer.pipeline.flows.reproduce import stage

candidates = stage("candidates")
