"""Membership attacks, a file each. They turn models' answers on examples into a membership score per example."""
