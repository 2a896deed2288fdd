"""One piece of a segment, on an executor: blocks of batches go past every rule that needs no other piece."""
