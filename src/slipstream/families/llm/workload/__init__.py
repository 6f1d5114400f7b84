"""Requests: distributions, traces, readers and the generator."""
