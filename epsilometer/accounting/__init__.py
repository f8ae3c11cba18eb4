"""The claims of a training run: dominating pairs of its releases, and their losses under composition.

Losses are in nats. The names are those of differential privacy: a *release* is the output of one step, a
*schedule* lists which examples enter which step, and a *pair* holds the two laws that are hardest to tell apart.
"""
