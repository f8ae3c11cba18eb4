"""1-D word lists for 1-Diffractor."""

from epsilometer.pipeline.flows.reproduce import stage

lists = stage("lists")
