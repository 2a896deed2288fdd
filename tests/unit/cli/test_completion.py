from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.cli.command_tree import tree_of
from tailrace.cli.main import COMMANDS, build_parser, main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the script, and a `tailrace` that knows two topics, two groups and two ids, nothing else."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash on the PATH")
    directory = tmp_path_factory.mktemp("completion")
    made = subprocess.run(
        [sys.executable, "-m", "tailrace", "completion", "bash"], capture_output=True, check=True
    ).stdout
    (directory / "script").write_bytes(made)
    fake = directory / "tailrace"
    fake.write_text(
        "#!/bin/sh\ncase $1 in\n"
        "topic) echo 'topic topic=orders id=x partitions=1'; echo 'topic topic=payments id=y' ;;\n"
        "group) echo 'group group=billing kind=consumer'; echo 'group group=reports kind=share' ;;\n"
        "txn) echo 'transaction id=copier-1 state=Ongoing'; echo 'transaction id=copier-2' ;;\nesac\n"
    )
    fake.chmod(0o755)
    (directory / "file.txt").touch()
    return directory


def completed(bash: Path, *words: str) -> list[str]:
    code = f"""
        PATH={bash}:$PATH; cd {bash}; source script; compopt() {{ :; }}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tailrace; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", code, "bash", *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_options_and_values(bash: Path) -> None:
    assert set(completed(bash, "tailrace", "")) == {node.path[-1] for node in tree_of(build_parser(COMMANDS)).commands}
    assert completed(bash, "tailrace", "top") == ["topic"]
    assert completed(bash, "tailrace", "topic", "d") == ["describe", "delete"]
    assert completed(bash, "tailrace", "topic", "create", "--p") == ["--partitions"]
    assert completed(bash, "tailrace", "produce", "orders", "--codec", "") == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert completed(bash, "tailrace", "completion", "") == ["bash", "zsh", "fish"]
    assert completed(bash, "tailrace", "consume", "--max", "") == []


def test_topics_and_files(bash: Path) -> None:
    assert completed(bash, "tailrace", "consume", "") == ["orders", "payments"]
    assert completed(bash, "tailrace", "topic", "describe", "pay") == ["payments"]
    assert completed(bash, "tailrace", "config", "describe", "--topic", "o") == ["orders"]
    assert completed(bash, "tailrace", "produce", "orders", "--file", "fi") == ["file.txt"]
    assert completed(bash, "tailrace", "log", "dump", "fi") == ["file.txt"]


def test_groups_and_transactional_ids(bash: Path) -> None:
    assert completed(bash, "tailrace", "group", "describe", "") == ["billing", "reports"]
    assert completed(bash, "tailrace", "consume", "orders", "--group", "bi") == ["billing"]
    assert completed(bash, "tailrace", "group", "reset-offsets", "billing", "--topic", "pay") == ["payments"]
    assert completed(bash, "tailrace", "txn", "describe", "") == ["copier-1", "copier-2"]
    assert completed(bash, "tailrace", "txn", "producers", "o") == ["orders"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script(capsys: Captured, shell: str) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for node in tree_of(build_parser(COMMANDS)).walk():
        assert " ".join(node.path) in script
        for option in node.options:
            for flag in option.flags:
                in_fish = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                assert (in_fish if shell == "fish" else flag) in script


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_the_shell_can_read_its_script(capsys: Captured, tmp_path: Path, shell: str, check: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on the PATH")
    main(["completion", shell])
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    subprocess.run([shell, check, str(script)], check=True)
