"""One file per attack: facts about people and rewrites in, scores of their match out."""
