"""Ctrl-C that comes out of Spark as something else.

PySpark and Py4J tidy up after what interrupts them. Where that goes wrong, the error of the tidying is raised, such as
UnboundLocalError for a socket that was not opened yet; that somebody wanted an end is only told by what came before it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """An error of the block that hides an interrupt becomes that interrupt again. All others are as they are."""
    # Who calls this while handling an interrupt has it behind every error of ours, and has dealt with it.
    handled = sys.exc_info()[1]
    try:
        yield
    except Exception as error:
        interrupt = interrupt_behind(error, handled)
        if interrupt is None:
            raise
        raise interrupt from None


def interrupt_behind(error: BaseException, handled: BaseException | None = None) -> BaseException | None:
    """KeyboardInterrupt, or SystemExit, which handlers of signals raise too. Not looked for at `handled` and before."""
    waiting, seen = [error], {id(handled)}
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        if isinstance(each, KeyboardInterrupt | SystemExit):
            return each
        seen.add(id(each))
        waiting += [before for before in (each.__context__, each.__cause__) if before is not None]
    return None
