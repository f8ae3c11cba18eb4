"""How close a rewrite is to its text: one file a metric, named by its module.

A metric is a class with `measure(originals, rewrites)`; see `epsilometer.auditing.worth.similarity`.
"""
