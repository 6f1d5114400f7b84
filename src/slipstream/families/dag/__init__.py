"""Dag family: jobs are graphs of stages; executors run their tasks and need time to move between jobs."""
