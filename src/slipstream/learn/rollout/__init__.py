"""Lanes that play by a network, and the batches they give."""
