"""Cluster: jobs of users wait for GPUs; decisions say which starts when, where and at which power cap."""
