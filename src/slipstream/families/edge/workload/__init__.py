"""Workloads of the edge family: arrivals, traces, importers and generators."""
