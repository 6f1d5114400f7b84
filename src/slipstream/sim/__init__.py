"""Lanes, events, random numbers, the event log and the simulator, for any family."""
