"""Policy-gradient, imitation and hindsight algorithms."""
