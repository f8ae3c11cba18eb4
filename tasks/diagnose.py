"""What the outputs look like, fewer trials, another estimator, where attacks disagree."""

from epsilometer.pipeline.flows.reproduce import stage

diagnose = stage("diagnose")
