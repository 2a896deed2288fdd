"""Runs the code blocks of a page from top to bottom, as a reader would who follows it.

Python blocks share a namespace, shell blocks a folder and a broker. `tailrace` runs in this process: so commands with
Spark take the session that is there, and the others do not start an interpreter each. Three things differ from what
a reader does:

- The broker has a free port. `localhost:9092` and `127.0.0.1:9092` in a block become its address.
- `tailrace serve` starts a broker with the options of the page; it replaces the one before, on the same data.
- The demo writes a few orders to the broker of the page; commands in NOT_RUN are only parsed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import io
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

from support.docs.page_blocks import PYTHON, SHELL, Block, Command, blocks, commands, name_of
from tailrace.cli.demo_orders import Orders
from tailrace.cli.demo_run import TOPIC, create_topic
from tailrace.cli.main import COMMANDS, INTERRUPTED, build_parser, main
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.testing.broker import Broker

NOT_RUN: Final[Mapping[str, str]] = {
    r"make test|make run ONCE=1|TAILRACE_KERNELS=interpreted make test": "the whole suite and the demo: CI runs them",
    r"make soak|\.venv/bin/python tools/soak\.py .*": "takes hours",
    r"\.venv/bin/python tools/mutants\.py .*": "takes hours",
    r"pip install .*": "needs a package index",
    r"python tools/foreign_suites\.py .*": "needs the source code of a client library",
    r"tailrace pipeline table .* --trigger .*": "runs until Ctrl-C: tests/spark/test_table_cli.py has such a run",
}
"""Patterns of commands in shell blocks that do not run here, and why. Those of `tailrace` must still parse."""

TAILRACE: Final = ("tailrace", ".venv/bin/tailrace")
NEEDS_BROKER: Final = {"topic", "produce", "consume", "group", "txn", "config", "cluster", "pipeline"}
ENDLESS: Final = {"--follow", "--live"}
"""Options of commands that run until Ctrl-C: they must show something, and are then interrupted."""
QUIET: Final = {"cp", "mv", "rm"}
"""Programs that show nothing if all is well."""
DEMO: Final = {"make run", "tailrace demo --no-spark", "tailrace demo --no-spark --dir data"}
"""Their broker writes orders until Ctrl-C. Here the broker of the page gets the first of them."""
STOP_BROKER: Final = "# Stop the broker"
"""A shell comment that begins so asks the reader to press Ctrl-C in the terminal of the broker."""

DEMO_ORDERS: Final = 500
SETTINGS: Final = {"replica.high.watermark.checkpoint.interval.ms": 100}
"""Readers of a directory see what lies below the noted high watermark. A reader of a page is slower than a test."""
TIMEOUT_S: Final = 60
FIRST_LINE_S: Final = 20
"""How long a reader looks at an empty screen."""
NAMESPACE: Final = "page"
"""The name of the module that the Python blocks of a page are."""

_ADDRESS = re.compile(r"\b(?:localhost|127\.0\.0\.1):9092\b")
_PORT = re.compile(r"\b127\.0\.0\.1:\d+\b")
_PRINTED = re.compile(r"^ *print\(.*\)  # (?P<output>.+)$", re.MULTILINE)


def needs_spark(page: Path) -> bool:
    return any("tailrace.spark" in each.text for each in blocks(page) if each.kind == PYTHON) or any(
        reason_not_to_run(each) is None and is_tailrace(each.words) and each.words[1] == "pipeline"
        for block in blocks(page)
        if block.kind == SHELL
        for each in commands(block)
        if each.programs
    )


def is_tailrace(words: Sequence[str]) -> bool:
    return words[0] in TAILRACE


def pattern_of(command: Command) -> str | None:
    """The pattern in NOT_RUN that has this command."""
    text = " ".join(command.words)
    return next((each for each in NOT_RUN if re.fullmatch(each, text)), None)


def reason_not_to_run(command: Command) -> str | None:
    pattern = pattern_of(command)
    return None if pattern is None else NOT_RUN[pattern]


def parse(where: str, words: Sequence[str]) -> None:
    """Assert that the command line takes these words."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            _parser().parse_args(words[1:])
    except SystemExit:
        raise AssertionError(f"{where}: {errors.getvalue()}") from None


@functools.cache
def _parser() -> argparse.ArgumentParser:
    return build_parser(COMMANDS)


def tailrace(arguments: Sequence[str], given: bytes) -> tuple[int, bytes, str]:
    """Exit code, output and errors of a command that gets `given` from a pipe."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
        stdin.write(given)
        stdin.seek(0)
        read, write = io.TextIOWrapper(stdin), io.TextIOWrapper(stdout, write_through=True)
        with (
            mock.patch.object(sys, "stdin", read),
            mock.patch.object(sys, "stdout", write),
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            try:
                code = main(arguments)
            except SystemExit as end:  # wrong usage
                code = int(end.code or 0)
        stdout.seek(0)
        return code, stdout.read(), errors.getvalue()


def _with_free_ports(text: str) -> str:
    return _PORT.sub("127.0.0.1:0", text)


class PageBroker(Broker):
    """The broker that `tailrace serve` with these options starts, except for its port."""

    def __init__(self, options: Sequence[str], folder: Path) -> None:
        super().__init__(SETTINGS, data_dir=folder / "data")
        self.COMMAND = (*Broker.COMMAND, *options)  # type: ignore[misc]


class PageRun:
    """One page in one folder, which must be the working directory. `fixture` gives the arguments of test functions."""

    def __init__(self, page: Path, folder: Path, fixture: Callable[[str], Any]) -> None:
        self.page = page
        self.folder = folder
        self.namespace: dict[str, Any] = {"__name__": NAMESPACE}
        self.printed: list[str] = []
        """Lines that the Python blocks have printed."""
        self._fixture = fixture
        self._broker: Broker | None = None

    def __enter__(self) -> PageRun:
        self._environment = mock.patch.dict(os.environ)
        self._environment.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._environment.stop()
        self._stop_broker()

    def run(self) -> None:
        for block in blocks(self.page):
            if block.kind == PYTHON:
                self.python(block)
            elif block.kind == SHELL:
                for each in commands(block):
                    self.command(each)
            elif block.file_name is not None:
                (self.folder / block.file_name).write_text(self.file_text(block.text))

    def file_text(self, text: str) -> str:
        """What a configuration file of the page gets."""
        return _with_free_ports(text)

    # Python

    def python(self, block: Block) -> None:
        """Run a block, and call the tests that it defines. `print(…)  # output` says what is printed."""
        text = self.with_address(block.text)
        before = dict(self.namespace)
        with contextlib.redirect_stdout(io.StringIO()) as printed, self._located():
            exec(compile("\n" * (block.line - 1) + text, str(self.page), "exec"), self.namespace)
            for name, value in self.namespace.items():
                if name.startswith("test_") and value is not before.get(name):
                    value(**{each: self._fixture(each) for each in inspect.signature(value).parameters})
        self.printed += printed.getvalue().splitlines()
        lines = iter(printed.getvalue().splitlines())
        for each in _PRINTED.finditer(block.text):
            line = block.line + block.text.count("\n", 0, each.start())
            where = f"{name_of(self.page)}:{line}"
            assert each["output"] in lines, f"{where}: {each['output']} is not printed, but {printed.getvalue()!r}"

    @contextlib.contextmanager
    def _located(self) -> Iterator[None]:
        """Errors name the line of the page. Only what the page itself is warned about is an error, too."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.filterwarnings("error", module=NAMESPACE)
                yield
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next((each.lineno for each in reversed(frames) if each.filename == str(self.page)), None)
            if isinstance(error, SyntaxError):
                line = error.lineno
            raise AssertionError(f"{name_of(self.page)}:{line}: {error!r}") from error

    # Shell

    def command(self, command: Command) -> None:
        if not command.programs:
            self.comment(command)
            return
        words = command.words
        if reason_not_to_run(command) is not None:
            if is_tailrace(words):
                parse(command.where, words)
        elif is_tailrace(words) and words[1] == "serve":
            parse(command.where, words)
            self.serve(words[2:])
        elif " ".join(words) in DEMO:
            self._fill_orders()
        elif ENDLESS & set(words):
            self._interrupt(command)
        else:
            self._run(command)

    def comment(self, command: Command) -> None:
        """A line of a shell block that is only a comment: it may ask the reader to do something."""
        if command.text.startswith(STOP_BROKER):
            self._stop_broker()

    def _run(self, command: Command) -> None:
        output = b""
        for words in command.programs:
            output = self.program(command.where, [self.with_address(each) for each in words], output)
        if command.target is not None:
            (self.folder / command.target).write_bytes(output)
        else:
            is_quiet = command.words[0] in QUIET
            assert output or is_quiet, f"{command.where}: {command.text} shows nothing"

    def program(self, where: str, words: Sequence[str], given: bytes) -> bytes:
        if not is_tailrace(words):
            done = subprocess.run(words, input=given, capture_output=True, check=False, timeout=TIMEOUT_S)
            assert done.returncode == 0, f"{where}: exit code {done.returncode}: {done.stderr.decode()}"
            return done.stdout
        if words[1] in NEEDS_BROKER:
            self._point_to_broker()
        code, output, errors = tailrace(words[1:], given)
        assert code == 0, f"{where}: exit code {code}: {errors}"
        return output

    def _interrupt(self, command: Command) -> None:
        """Run a command that ends with Ctrl-C, up to the first line that it prints."""
        self._point_to_broker()
        arguments = [sys.executable, "-P", "-m", "tailrace", *command.words[1:]]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, start_new_session=True) as process:
            try:
                assert process.stdout is not None
                with selectors.DefaultSelector() as selector:
                    selector.register(process.stdout, selectors.EVENT_READ)
                    is_shown = selector.select(FIRST_LINE_S) and process.stdout.readline()
                assert is_shown, f"{command.where}: {command.text} shows nothing"
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=TIMEOUT_S)
                assert process.returncode in (0, INTERRUPTED), command.where
            finally:
                process.kill()

    # Broker

    def serve(self, options: Sequence[str]) -> None:
        self._stop_broker()
        self._broker = PageBroker([_with_free_ports(each) for each in options], self.folder)
        self._broker.start()

    def _stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    def address(self) -> str:
        if self._broker is None:
            self.serve([])
        assert self._broker is not None
        return self._broker.bootstrap_servers

    def with_address(self, text: str) -> str:
        return _ADDRESS.sub(lambda _: self.address(), text)

    def _point_to_broker(self) -> None:
        os.environ["TAILRACE_BOOTSTRAP"] = self.address()

    def _fill_orders(self) -> None:
        """What `tailrace demo` writes, on the broker of the page."""
        orders = Orders()
        with Cluster(self.address()) as cluster, Producer(cluster, may_create_topics=False) as producer:
            create_topic(cluster)
            for _ in range(DEMO_ORDERS):
                order = orders.next()
                producer.send(TOPIC, order.value, order.key)
