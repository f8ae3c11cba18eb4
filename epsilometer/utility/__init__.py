"""What a rewrite is still worth."""
