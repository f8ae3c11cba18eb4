"""One file per attack: models' answers on examples in, scores of each example's membership out."""
