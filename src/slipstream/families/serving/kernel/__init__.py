"""The compiled machine of the family."""
