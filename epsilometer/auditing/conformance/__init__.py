"""Conformance tests of a component: the rules for mechanisms, attacks and metrics that every audit relies on.

They detect coding mistakes, on a few public texts; an audit measures leaks, and `epsilometer claims` checks a claim's
worst case. Each statistical test fails a sound component with probability at most FALSE_ALARM.
"""
