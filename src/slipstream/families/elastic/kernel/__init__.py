"""Compiled machine of elastic jobs."""
