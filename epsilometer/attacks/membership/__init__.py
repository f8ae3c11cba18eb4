"""One file an attack: what models say of examples in, how surely each was trained on out."""
