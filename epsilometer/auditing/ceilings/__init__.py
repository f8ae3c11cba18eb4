"""Ceilings that no mechanism can exceed: the largest worth at a guess loss, and the loss that a worth proves."""
