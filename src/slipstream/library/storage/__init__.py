"""The library on disk: version folders and the SQLite database."""
