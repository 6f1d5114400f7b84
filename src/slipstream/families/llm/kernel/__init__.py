"""Compiled machine: blocks, queues, steps, decisions and observation."""
