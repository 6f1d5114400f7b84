"""What real machines that run edge scenarios need of the family."""
