"""The truth bench: mechanisms of known loss, and estimators on samples of them. Losses are in nats."""
