"""What real machines that run taskgraph scenarios need of the family."""
