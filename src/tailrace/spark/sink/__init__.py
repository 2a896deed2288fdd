"""Rows out: to brokers, at least once or exactly once."""
