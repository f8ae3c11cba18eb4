"""What canaries prove of a training, beside what its accountants say."""

from epsilometer.pipeline.flows.reproduce import stage

one_run = stage("one_run")
