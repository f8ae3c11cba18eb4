"""Where texts come from: local files, the Hugging Face hub, the embedded generator."""
