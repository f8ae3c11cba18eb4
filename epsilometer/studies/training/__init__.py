"""The study of private training: claims, utility, membership attacks, and reconstruction of texts from gradients."""
