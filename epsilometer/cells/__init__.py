"""Cells: mechanisms on the data sets of a project, and the results that stages compute for them."""
