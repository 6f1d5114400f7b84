"""Data of charts, and still pictures."""
