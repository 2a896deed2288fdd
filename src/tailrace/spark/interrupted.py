"""Ctrl-C that comes out of Spark as something else, and what Spark would say about it.

PySpark and Py4J tidy up after what interrupts them. Where that goes wrong, the error of the tidying is raised, such as
UnboundLocalError for a socket that was not opened yet; that somebody wanted an end is only told by what came before it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

HUSH_S: Final = 2.0
"""As long as a JVM may take to answer before its words are put up with."""


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


def hush_spark() -> None:
    """For who ends the program amid jobs: the JVM that ends with it would tell of each task as of an error.

    It is asked from another thread. In this one it may be about to answer what was asked before the interrupt.
    """
    contexts = getattr(sys.modules.get("pyspark"), "SparkContext", None)  # an import may be what was interrupted
    context = getattr(contexts, "_active_spark_context", None)
    if context is None:
        return

    def ask() -> None:
        with suppress(Exception):  # it may be gone, or busy with that
            context.setLogLevel("OFF")

    asking = threading.Thread(target=ask, name="tailrace-hush", daemon=True)
    asking.start()
    asking.join(HUSH_S)
