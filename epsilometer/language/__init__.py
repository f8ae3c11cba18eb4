"""What several mechanisms and attacks share: words, encoders and language models."""
