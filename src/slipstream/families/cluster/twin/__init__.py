"""A twin of a cluster: from the state of this moment, when each job starts, why it waits, and what if."""
