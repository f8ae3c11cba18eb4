"""Every attack on training against its noise, and whether it falls as noise grows."""

from epsilometer.pipeline.flows.reproduce import stage

training_curves = stage("training_curves")
