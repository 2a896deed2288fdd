"""Logs on a simulated machine or on real files."""
