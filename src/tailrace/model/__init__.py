"""The vocabulary: ids, offsets, errors, invariants. Imports nothing else of the project."""
