"""What anonymisers read, trained on texts that nothing else sees."""

from epsilometer.pipeline.flows.reproduce import stage

auxiliaries = stage("auxiliaries")
