"""Mechanisms broken on purpose: the audit must catch them."""
