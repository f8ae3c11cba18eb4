"""Training of the small embedded models. Not part of an audit: `python -m epsilometer.pipeline.pretrain` runs it."""
