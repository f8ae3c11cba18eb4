"""Heads trained on features with noise, a folder for each level and seed."""

from epsilometer.pipeline.flows.reproduce import stage

private_training = stage("private_training")
