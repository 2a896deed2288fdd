"""Standard output for tables and bars; apart from `output` because it takes a tenth of a second to load."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class Terminal(Console):
    """Coloured where standard output is a terminal, plain text where it is not."""

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, soft_wrap=soft_wrap)

    def on_broken_pipe(self) -> NoReturn:
        """Rich would end the program with 1 here; `cli.main` has a code of its own for it."""
        raise BrokenPipeError
