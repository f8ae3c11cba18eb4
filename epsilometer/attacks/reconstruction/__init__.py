"""One file per attack: a sent gradient goes in, texts come out."""
