"""Any stage of dvc.yaml as a Prefect task, by its address: `reproduce("embed@queries")` in a flow of your own."""

from epsilometer.pipeline.flows.reproduce import reproduce

__all__ = ["reproduce"]
