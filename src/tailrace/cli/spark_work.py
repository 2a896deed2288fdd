"""What the commands that run on Spark have in common when they run: what they need, where topics are, how they end."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from tailrace.cli.output import CommandError
from tailrace.cli.remote import creating
from tailrace.cli.remote_args import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from tailrace.client.errors import BrokerUnreachableError
from tailrace.model.errors import CorruptMessageError
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE

NEEDED: Final = ("pyspark", "pyarrow")


def check_installed(what: str) -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise CommandError(f"{what} needs {' and '.join(missing)}, not installed here", "pip install 'tailrace[spark]'")


def started(name: str, args: argparse.Namespace) -> Any:
    """A session of Spark. Ctrl-C ends the command: Spark's own way asks the JVM first, amid another question."""
    from tailrace.spark.spark_session import session

    spark = session(name, args.master, dict(args.spark), progress=False)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return spark


def brokers_of(args: argparse.Namespace) -> str | None:
    """None where files are read."""
    if args.path is not None:
        return None
    given: str | None = args.bootstrap
    return given or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP


@contextmanager
def told_errors(topic: str | None, *, is_path: bool) -> Iterator[None]:
    """Errors of the pipeline, with what to do about them from a command line. An interrupt is told by nobody."""
    from tailrace.spark.errors import MissingTopicError, PipelineError
    from tailrace.spark.interrupted import hush_spark, interrupts_raised
    from tailrace.spark.query_logs import silence_query_logs

    silence_query_logs()
    try:
        with interrupts_raised():
            yield
    except (KeyboardInterrupt, SystemExit):
        hush_spark()
        raise
    except CorruptMessageError as error:
        hint = "--option skipCorrupt=true passes over it; `tailrace pipeline audit DIR` tells all that is damaged"
        raise CommandError(str(error), hint) from error
    except MissingTopicError as error:
        if is_path:
            raise CommandError(str(error), "a path is a log directory, or the folder of a partition in one") from error
        hint = f"look for it with `tailrace topic list`, or create it: {creating(topic or 'TOPIC')}"
        raise CommandError(str(error), hint) from error
    except OSError as error:
        if error.filename is None:
            raise
        text = f"{error.filename} cannot be used: {error.strerror or error}"
        hint = "run it as a user that has the right to" if isinstance(error, PermissionError) else ""
        raise CommandError(text, hint) from error
    except PipelineError as error:
        if not isinstance(error.__cause__, BrokerUnreachableError):
            raise
        raise CommandError(
            str(error),
            f"start one with `tailrace serve`, or pass its address: --bootstrap HOST:PORT or {BOOTSTRAP_VARIABLE}",
        ) from error


def check_path(path: str) -> None:
    """Before Spark is started. What names several places, or is a URL, is left to who reads it."""
    if "," not in path and not path.startswith("file:") and not os.path.exists(path):
        raise CommandError(f"{path or repr(path)} does not exist", "give a log directory, or the folder of a partition")


def check_writable(path: str) -> None:
    """Before the work: a report that cannot be written must not be known only after it."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        reason = "it is a folder" if os.path.isdir(path) else f"{folder} is no folder that can be written"
        raise CommandError(f"cannot write a report to {path}: {reason}", "--report takes a file, such as report.html")


def check_outside(report: str, paths: Iterable[str], done: str) -> None:
    """What is looked at is only read. The folder of a partition may be one of a log directory, which is then, too."""
    at = os.path.realpath(report)
    for path in map(os.path.realpath, paths):
        above = os.path.dirname(path)
        log_dir = above if os.path.exists(os.path.join(above, META_PROPERTIES_FILE)) else path
        if at.startswith(os.path.join(log_dir, "")):
            raise CommandError(
                f"report {report} is in {log_dir}, which is {done} and only read", "write it to another folder"
            )


def places_in(path: str) -> list[str]:
    """Those that a path names: as the source takes it, there may be several, and URLs."""
    parts = [path] if os.path.exists(path) else [part.strip() for part in path.split(",")]
    return [part.removeprefix("file://") for part in parts if part]
