from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from support.logs.sample_log import copy_sample
from tailrace import __version__
from tailrace.cli.command import Command, CommandModule, Handler, Subparsers, needed
from tailrace.cli.command_tree import tree_of
from tailrace.cli.main import COMMANDS, build_parser, main
from tailrace.model.errors import IndexAppendError, OffsetOutOfRangeError


def command(handler: Handler) -> Command:
    """A command module named `work` that takes a number."""

    def register(subparsers: Subparsers) -> None:
        parser = subparsers.add_parser("work", help="does it")
        parser.add_argument("number", type=int)
        parser.set_defaults(handler=handler)

    return cast(Command, SimpleNamespace(register=register))


def raising(error: BaseException) -> Handler:
    def handler(args: argparse.Namespace) -> int:
        raise error

    return handler


def test_version_names_release_python_and_kernels() -> None:
    result = subprocess.run([sys.executable, "-m", "tailrace", "--version"], capture_output=True, text=True, check=True)
    release, python, kernels = result.stdout.splitlines()
    assert release == f"tailrace {__version__}"
    assert python == "python {}.{}.{}".format(*sys.version_info[:3])
    assert kernels in ("kernels: compiled", "kernels: interpreted")


@pytest.mark.parametrize(("compiled", "word"), [(True, "compiled"), (False, "interpreted")])
def test_version_tells_how_the_kernels_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiled: bool, word: str
) -> None:
    monkeypatch.setattr("tailrace.record.kernels.COMPILED", compiled)
    with pytest.raises(SystemExit) as exit_info:
        main(["--version"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out.endswith(f"\nkernels: {word}\n")


def test_runs_the_handler_with_its_arguments_and_passes_its_exit_code_on() -> None:
    seen: list[int] = []

    def handler(args: argparse.Namespace) -> int:
        seen.append(args.number)
        return 7

    assert main(["work", "42"], [command(handler)]) == 7
    assert seen == [42]


def test_an_error_becomes_a_message_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", "1"], [command(raising(OffsetOutOfRangeError("offset 9 is beyond 5")))]) == 1
    assert capsys.readouterr().err == f"error: offset 9 is beyond 5\nhint: {OffsetOutOfRangeError.hint}\n"


def test_an_error_without_hint_or_message_still_says_something(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", "1"], [command(raising(IndexAppendError()))]) == 1
    assert capsys.readouterr().err == "error: INDEX_APPEND\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["demo", "--crash"],
        ["demo", "--once"],
        ["log", "dump", "DIRECTORY"],
        ["log", "verify", "DIRECTORY"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_output_that_cannot_be_written_is_an_error_and_no_traceback(tmp_path: Path, arguments: list[str]) -> None:
    sample = copy_sample(tmp_path / "t-0")
    command = [argument.replace("DIRECTORY", str(sample)) for argument in arguments]
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tailrace", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
    assert result.stderr == "error: write to standard output: No space left on device\nhint: free space on the disk\n"
    assert result.returncode == 1


def test_closed_output_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["work", "1"], [command(lambda args: 0)]) == 1
    assert capsys.readouterr().err.startswith("error: standard output is closed\n")


def test_an_error_of_a_file_that_no_command_expected_shows_its_traceback() -> None:
    with pytest.raises(FileNotFoundError):
        main(["work", "1"], [command(raising(FileNotFoundError(2, "No such file", "some/file")))])


@pytest.mark.parametrize("kind", ["--crash", "--once"])
def test_rich_output_into_a_closed_pipe_has_the_exit_code_of_one(tmp_path: Path, kind: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        result = subprocess.run(
            [sys.executable, "-m", "tailrace", "demo", kind, "--dir", str(tmp_path)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (result.returncode, result.stderr) == (141, "")


def test_ctrl_c_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", "1"], [command(raising(KeyboardInterrupt()))]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("argv", [["work", "x"], ["nothing"], ["--nothing"]])
def test_wrong_usage_exits_with_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(argv, [command(lambda args: 0)])
    assert exit_info.value.code == 2


@pytest.mark.parametrize("commands", [COMMANDS, [command(lambda args: 0)]])
def test_no_command_shows_help(capsys: pytest.CaptureFixture[str], commands: list[Command]) -> None:
    assert main([], commands) == 2
    assert capsys.readouterr().err.startswith("usage: tailrace")


def test_only_the_command_that_runs_is_loaded() -> None:
    commands = (CommandModule("log", "tailrace.cli.log"), CommandModule("broken", "tailrace.no_such_module"))
    assert [node.path[-1] for node in tree_of(build_parser(needed(commands, ["log", "dump"]))).commands] == ["log"]
    for argv in ([], ["--help"], ["nothing"], ["broken"]):
        with pytest.raises(ModuleNotFoundError):
            build_parser(needed(commands, argv))


def test_the_name_in_the_table_is_the_one_that_a_command_registers() -> None:
    for command in COMMANDS:
        assert isinstance(command, CommandModule)
        assert [node.path[-1] for node in tree_of(build_parser([command])).commands] == [command.name]


@pytest.mark.parametrize(("variable", "columns"), [("", 80), ("0", 80), ("x", 80), ("132", 132)])
def test_help_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, variable: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", variable)
    monkeypatch.setattr(sys, "__stdout__", None)
    parser = build_parser([])
    parser.add_argument("--word", help="a " * 500)
    assert max(map(len, parser.format_help().splitlines())) in (columns - 3, columns - 2)


@pytest.mark.parametrize("size", [10, 10_000_000], ids=["seen at the flush", "seen while writing"])
def test_a_closed_pipe_is_quiet(size: int) -> None:
    script = f"""
import sys
from types import SimpleNamespace
from tailrace.cli.main import main

def handler(args):
    sys.stdout.write("x" * {size})
    return 0

def register(subparsers):
    subparsers.add_parser("work").set_defaults(handler=handler)

sys.exit(main(["work"], [SimpleNamespace(register=register)]))
"""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert result.stderr == ""
    assert result.returncode == 141
