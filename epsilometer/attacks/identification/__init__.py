"""One file an attack: rewrites and candidates in, guesses out."""
