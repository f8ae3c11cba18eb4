"""Tests of a deployed service: which planted identifiers it leaks when something fails."""
