"""Measured profiles of a device, and validation of the simulation against it."""
