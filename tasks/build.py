"""What mechanisms read, built from public texts."""

from epsilometer.pipeline.flows.reproduce import stage

build = stage("build")
