"""Attacks on trainings: who was in a training set, and which texts a gradient was computed from."""
