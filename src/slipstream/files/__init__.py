"""Reading and writing files: atomic replacement, bounded reads, Parquet, columns of tables."""
