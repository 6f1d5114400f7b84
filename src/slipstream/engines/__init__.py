"""Real serving engines whose own scheduler asks a policy."""
