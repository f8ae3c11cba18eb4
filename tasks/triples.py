"""A public corpus of triples for DP-ST, without near-duplicates, clustered."""

from epsilometer.pipeline.flows.reproduce import stage

triples = stage("triples")
