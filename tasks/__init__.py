"""The Prefect task of this project; its body stands in `epsilometer.pipeline.flows`."""
