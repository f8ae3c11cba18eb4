"""Word vectors, from the embedded encoder or a file."""

from epsilometer.pipeline.flows.reproduce import stage

vectors = stage("vectors")
