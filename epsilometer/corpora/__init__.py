"""Sources of texts: local files, the Hugging Face hub, the embedded generator."""
