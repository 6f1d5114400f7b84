"""Dag: jobs arrive as graphs of stages; executors serve their tasks and take time to move from job to job."""
