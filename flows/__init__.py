"""The Prefect flows of this project; their bodies are in `epsilometer.pipeline.flows`."""
