"""One file an attack: what is known of people and rewrites in, scores of how well they fit out."""
