"""The Prefect task of this project; its body is in `epsilometer.pipeline.flows`."""
