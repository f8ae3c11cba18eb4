"""One file per attack: rewrite and candidates in, guess out."""
