"""Cells: mechanisms on the data sets of a project. Stages compute the cells' results, and questions reuse them."""
