"""Upper bounds on sizes. Parameters that exceed a bound are rejected before work starts."""

LARGEST_SET = 12  # most texts in a set; the linear program of its ceiling then has 4,095 variables
MOST_TRIALS = 10**9  # most trials; their arrays take about 100 GB
