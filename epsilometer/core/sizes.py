"""The largest sizes that are computed with; parameters that ask for more are refused before work starts."""

LARGEST_SET = 12  # texts of a set whose ceiling is computed: 4,095 variables
MOST_TRIALS = 10**9  # whose numbers take some 100 GB
