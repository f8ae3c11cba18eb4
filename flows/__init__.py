"""Prefect flows: order, schedule, alerts; nothing else."""
