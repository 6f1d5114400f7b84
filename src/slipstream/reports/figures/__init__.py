"""Data of the pages' charts, and still figures."""
