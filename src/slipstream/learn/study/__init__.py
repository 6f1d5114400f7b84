"""Studies of training settings."""
