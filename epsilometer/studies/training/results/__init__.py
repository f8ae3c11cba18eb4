"""What guesses about trainings and gradients prove."""
