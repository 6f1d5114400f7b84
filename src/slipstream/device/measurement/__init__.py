"""Profiles of a device, and how far a simulation agrees with it."""
