"""Compiled simulation kernel of the edge family."""
