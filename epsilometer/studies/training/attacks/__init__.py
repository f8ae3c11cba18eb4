"""Attacks on trainings: on the membership of examples, and on the texts behind a gradient."""
