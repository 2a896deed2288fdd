"""The driver's side of a table: decides what a batch is, has it done, and commits it."""
