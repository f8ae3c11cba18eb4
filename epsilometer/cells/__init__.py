"""Cells: mechanisms on the data sets of a project. Stages compute their results, and questions reuse these."""
