"""One file per attack: a sent gradient goes in, texts come out."""

KIND = "attacks/reconstruction"  # the folder of the package that these attacks are found in by name
