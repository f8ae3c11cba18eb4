"""Training of the small embedded models, by `python -m pretraining`. It is not part of an audit."""
