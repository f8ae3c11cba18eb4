"""Which files the components reach by their imports; always looked at, as DVC cannot know them beforehand."""

from epsilometer.pipeline.flows.reproduce import stage

code = stage("code")
