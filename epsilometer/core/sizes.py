"""Upper bounds on sizes; parameters that exceed them are rejected before work starts."""

LARGEST_SET = 12  # texts of a set whose ceiling is computed, by a program of 4,095 variables
MOST_TRIALS = 10**9  # their numbers take about 100 GB
