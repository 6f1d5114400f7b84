"""What real machines that run dag scenarios need of the family."""
