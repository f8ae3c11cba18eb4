"""Who can tell which of k texts a mechanism rewrote, what its claim says, and what its rewrites keep."""
