"""Inference of networks in compiled code."""
