"""May it be used? What an audit shows of a mechanism at a budget, against stated limits."""
