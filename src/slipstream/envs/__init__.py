"""Gymnasium environments over any family."""
