"""Evidence about a figure, bounds by it, and the status of a limit on the figure."""
