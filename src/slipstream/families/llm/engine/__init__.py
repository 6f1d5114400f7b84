"""What a real engine that batches requests for text needs of the family."""
