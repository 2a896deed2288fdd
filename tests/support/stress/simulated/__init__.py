"""Stress tests in the simulator, from seeds."""
