"""A promise the code makes to itself. A broken one is a bug of ours, never of the input."""


class InvariantError(AssertionError):
    """The process no longer knows what it believes; it must stop rather than write on."""


def invariant(holds: bool, promise: str) -> None:
    """Raise `InvariantError` unless `holds`. Unlike `assert`, it stays on under `python -O`."""
    if not holds:
        raise InvariantError(promise)
