"""What classifiers make of rewritten texts, doing a task or inferring an attribute."""

from epsilometer.pipeline.flows.reproduce import stage

downstream = stage("downstream")
