"""Cells: mechanisms on the data sets of a project. Stages compute results of cells. Questions reuse these results."""
