"""Parts of `make_golden.py`, which lets a real Kafka write the files under `tests/golden`."""
