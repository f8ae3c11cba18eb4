"""What mechanisms keep of what is possible at equal loss, ranked within a class of claims."""
