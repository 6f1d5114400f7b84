"""Sources of elastic jobs: traces, importers, the generator."""
