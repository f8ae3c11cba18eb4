"""Cells, each a mechanism on a data set of a project: what their stages compute, and how questions reuse it."""
