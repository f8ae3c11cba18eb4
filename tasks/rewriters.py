"""An encoder-decoder that writes round trips of texts from states that do not show an attribute."""

from epsilometer.pipeline.flows.reproduce import stage

rewriters = stage("rewriters")
