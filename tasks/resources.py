"""What each cell's mechanism reads, by content; always looked at, as it may be a file of one's own."""

from epsilometer.pipeline.flows.reproduce import stage

resources = stage("resources")
