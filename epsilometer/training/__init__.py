"""Private fine-tuning: gradients of examples, noise on them, the loop around it."""
