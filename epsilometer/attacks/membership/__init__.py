"""One file per attack: models' answers on examples go in, scores of how surely each was trained on come out."""
