"""One file per attack: rewrites and candidates in, guesses out."""
