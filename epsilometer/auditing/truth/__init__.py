"""The truth bench: mechanisms of known loss, and what estimators say of samples from them. Losses are in nats."""
