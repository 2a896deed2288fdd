"""Batches and records as bytes, and the kernels in both forms."""
