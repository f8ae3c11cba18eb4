"""Attributes of authors that rewrites still reveal: attackers, victims, their losses."""
