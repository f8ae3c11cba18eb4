"""Conformance tests of a component: the rules for mechanisms, attacks and metrics that every audit relies on.

The tests detect coding mistakes, on a few public texts. They do not measure leaks (an audit does), and do not check a
claim's worst case (`epsilometer claims` does). Each statistical test fails a correct component with probability at most
FALSE_ALARM.
"""
