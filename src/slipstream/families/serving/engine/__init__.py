"""What real machines that run serving scenarios need of the family."""
