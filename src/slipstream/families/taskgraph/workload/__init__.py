"""Arrivals, durations, graph sources and generators."""
