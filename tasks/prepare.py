"""Texts with stable ids, labels and word counts."""

from epsilometer.pipeline.flows.reproduce import stage

prepare = stage("prepare")
