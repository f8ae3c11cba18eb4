"""One file an attack: rewrite and candidates in, guess out."""
