"""What a training run claims: dominating pairs of what it releases, and what they lose when composed.

Losses are in nats. The names here are those of differential privacy: a *release* is what one step gives out, a
*schedule* says which examples enter which step, and a *pair* is the two laws that are hardest to tell apart.
"""
