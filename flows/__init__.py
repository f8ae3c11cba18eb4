"""The Prefect flows of this project; their bodies stand in `epsilometer.pipeline.flows`."""
