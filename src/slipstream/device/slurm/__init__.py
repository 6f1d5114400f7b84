"""Slurm as an engine of the cluster family: a local cluster, the driver of a live one, and trials on it."""
