"""Chromium without a window, for what reports look like."""
