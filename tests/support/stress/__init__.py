"""Stress tests: processes that are killed while they work."""
