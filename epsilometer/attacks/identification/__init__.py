"""One file an attack: rewrites and candidates in, guesses out."""

KIND = "attacks/identification"  # the folder of the package that these attacks are found in by name
