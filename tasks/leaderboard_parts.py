"""The public part, splits and sets of a data set, their ceiling, and what needs no mechanism."""

from epsilometer.pipeline.flows.reproduce import stage

leaderboard_parts = stage("leaderboard_parts")
