"""One file an attack: a sent gradient in, texts out."""
