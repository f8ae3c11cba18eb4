"""The autoencoder that ADePT reads, trained on public texts."""

from epsilometer.pipeline.flows.reproduce import stage

autoencoder = stage("autoencoder")
