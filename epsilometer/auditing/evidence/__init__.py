"""What was observed, what it bounds, and what that says about a limit."""
