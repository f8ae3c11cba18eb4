"""Training of the small embedded models. Not part of an audit: `python -m pretraining` runs it."""
