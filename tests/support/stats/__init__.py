"""Statistics of topics: what to count, and the model."""
