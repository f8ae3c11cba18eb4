"""The stages of dvc.yaml as Prefect tasks, one file a stage; their bodies stand in `epsilometer.pipeline.stages`."""
