"""What rewrites still reveal of their authors' attributes, and what classifiers learn from them."""
