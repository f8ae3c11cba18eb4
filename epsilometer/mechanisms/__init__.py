"""One file a mechanism: text in, text out."""
