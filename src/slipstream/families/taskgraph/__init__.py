"""Taskgraph: tasks on tiles of data run on processors with memories of their own; moving tiles takes time."""
