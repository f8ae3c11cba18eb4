"""What no mechanism can exceed on trials of sets, and how much of it each cell keeps."""

from epsilometer.pipeline.flows.reproduce import stage

ceilings = stage("ceilings")
