"""Arrivals, traces, job sources and generators."""
