"""The daemon that forks the Python workers of a local session: PySpark's, without a traceback for an ordinary end.

Spark closes the connection to a worker as soon as it has enough rows, as for LIMIT, `show()` and `take()`. A worker of
any Python source or function that has more rows than the connection buffers then fails to flush them. `pyspark.daemon`
prints a BrokenPipeError for that since Spark 4.1, although the result is right and nothing else is wrong.

Spark runs this module with the name of the worker module as its argument: `spark.python.daemon.module` names it.
"""

from __future__ import annotations

import select
import socket
from typing import Final

from pyspark import daemon

_FAILED: Final = 1
_worker: Final = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run tasks like `pyspark.daemon.worker`; end quietly if Spark has closed the connection.

    A report would have no reader. PySpark sends errors of a task earlier, while the connection is open.
    """
    try:
        return _worker(sock, authenticated)
    except ConnectionError:
        if not _is_closed(sock):
            raise
        return _FAILED


def _is_closed(sock: socket.socket) -> bool:
    """Whether the other end has closed it: poll reports hang-ups and errors without being asked for."""
    poller = select.poll()
    poller.register(sock, 0)
    return bool(poller.poll(0))


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
