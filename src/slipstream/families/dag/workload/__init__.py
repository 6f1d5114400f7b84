"""Arrivals, traces, importers and generators."""
