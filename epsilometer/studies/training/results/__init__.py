"""Results of attacks on trainings and gradients: rates, losses, bounds and tests."""
