"""What a mechanism keeps of a data set at an average loss, and what it loses there."""

from epsilometer.pipeline.flows.reproduce import stage

leaderboard_cells = stage("leaderboard_cells")
