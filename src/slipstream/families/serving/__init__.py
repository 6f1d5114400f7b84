"""Serving: requests for models are answered, in batches and by a deadline, by variants that a fleet hosts."""
