"""What each cell is and reads, by content; always looked at, as it may read a file of one's own."""

from epsilometer.pipeline.flows.reproduce import stage

resources = stage("resources")
