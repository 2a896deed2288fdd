"""Brokers for tests: simulated, scripted, in memory, on threads."""
