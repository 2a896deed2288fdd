"""Mutation testing of `src`: the committed list of mutants, the tests that reach them, and the tests that kill them."""
