"""Models and inputs that a device runs, by address."""
