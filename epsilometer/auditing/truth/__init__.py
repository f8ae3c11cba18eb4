"""The truth bench: mechanisms of known loss, and what estimators conclude from samples of them. Losses are in nats."""
