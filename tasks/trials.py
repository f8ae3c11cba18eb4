"""Candidate sets and targets, the same for every mechanism."""

from epsilometer.pipeline.flows.reproduce import stage

trials = stage("trials")
