"""Backends: what runs a model variant on a stream of a device."""
