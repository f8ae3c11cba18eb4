"""One file per attack: models' answers on examples go in, scores of how surely each was trained on come out."""

KIND = "attacks/membership"  # the folder of the package that these attacks are found in by name
