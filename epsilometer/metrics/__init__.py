"""Metrics of the similarity between a rewrite and its original text: one file per metric, named after the metric.

A metric is a class with `measure(originals, rewrites)`; see `epsilometer.auditing.worth.similarity`.
"""
