"""Tests of what a service leaks when something fails."""
