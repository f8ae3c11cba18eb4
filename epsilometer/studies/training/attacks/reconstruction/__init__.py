"""One file per attack: a sent gradient in, texts out."""
