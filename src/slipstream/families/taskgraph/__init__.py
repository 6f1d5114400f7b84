"""Taskgraph family: tasks on data tiles run on processors with private memories; transfers take time."""
