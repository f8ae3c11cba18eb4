"""Private fine-tuning: per-example gradients, noise, and the training loop."""
