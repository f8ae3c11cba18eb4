"""Attributes of authors that rewrites still reveal: attackers, victims, and the losses that attackers prove."""
