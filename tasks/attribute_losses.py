"""What a mechanism's law leaves of its data set's attributes at most, without trials."""

from epsilometer.pipeline.flows.reproduce import stage

attribute_losses = stage("attribute_losses")
