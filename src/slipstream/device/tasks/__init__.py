"""Engine of families whose tasks run on worker processes."""
