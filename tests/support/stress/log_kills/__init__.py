"""Processes that write, compact and delete logs are killed, and their logs compared with a model."""
