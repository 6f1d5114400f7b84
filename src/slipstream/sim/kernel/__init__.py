"""Compiled parts of the simulator that know no family: lanes, event heap, random numbers, observations."""
