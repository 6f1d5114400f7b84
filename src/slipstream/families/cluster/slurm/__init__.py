"""Slurm read as a cluster scenario: its commands, its state at a moment, and its accounting files."""
