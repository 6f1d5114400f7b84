"""LLM engines: continuous batching with paged KV memory, by the rules of vLLM."""
