"""One file an attack: what models say of examples in, how surely each was trained on out."""

KIND = "attacks/membership"  # the folder of the package that these attacks are found in by name
