"""Linking attacks, one per file. An attack gets facts about people and rewrites, and scores each pair."""
