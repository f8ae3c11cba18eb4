"""Private fine-tuning: per-example gradients, noise on them, and the training loop."""
