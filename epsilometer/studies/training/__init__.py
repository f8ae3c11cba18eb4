"""What training with noise claims, costs and gives away: members of training sets, and texts read off gradients."""
