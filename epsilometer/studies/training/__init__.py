"""The study of training with noise: its claims, its cost, and attacks on membership and on gradients."""
