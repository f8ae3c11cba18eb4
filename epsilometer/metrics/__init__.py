"""Metrics of the similarity of a rewrite to its text: one file per metric, named by its module.

A metric is a class with `measure(originals, rewrites)`; see `epsilometer.auditing.worth.similarity`.
"""
