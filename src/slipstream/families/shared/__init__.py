"""What families share: schema, features, timelines, labels, invariants, bounds, regret."""
