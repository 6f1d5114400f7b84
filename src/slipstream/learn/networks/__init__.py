"""Networks that score candidates."""
