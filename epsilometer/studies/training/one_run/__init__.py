"""Many guesses from one run of a training."""
