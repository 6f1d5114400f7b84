"""Families of environments: the contract, what families share, and one package per family."""
