"""One file an attack: a sent gradient in, texts out."""

KIND = "attacks/reconstruction"  # the folder of the package that these attacks are found in by name
