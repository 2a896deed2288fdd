"""Compacted logs and the model of what must survive a clean."""
