"""Cluster: jobs of users wait for GPUs; who starts when, where, at what power cap, and who is interrupted."""
