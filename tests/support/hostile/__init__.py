"""Damaged bytes and requests, and what every reader must do with them."""
