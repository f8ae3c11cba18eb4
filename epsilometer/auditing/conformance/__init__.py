"""Conformance tests of a component: does a mechanism, an attack or a metric keep the rules that every audit relies on?

They detect coding mistakes, on a handful of public texts; leaks are measured by an audit, and a claim's worst case by
`epsilometer claims`. Statistical tests fail a sound component with probability of at most FALSE_ALARM each.
"""
