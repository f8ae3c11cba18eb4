"""Evidence about a figure, the bounds that it gives, and the status of a limit on the figure."""
