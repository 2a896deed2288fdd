"""Probes in a module's text: they record what is executed and change nothing else."""

from __future__ import annotations

import builtins
import mmap
import textwrap
from pathlib import Path
from typing import Any

import pytest

from mutation_testing import probes
from mutation_testing.probes import HEADER, VARIABLE

SOURCE = textwrap.dedent(
    """
    def kind(size, limit):
        if size < 0:
            return "negative"
        elif (size == 0
              or limit == 0):
            return "nothing"
        elif size < limit: return "é small" ; size += 1
        total = sum(
            part
            for part in range(size)
        )
        while total > limit:
            total -= limit
        return total
    """
)
LINES = {3: 5, 4: 6, 7: 7, 8: 8, 9: 11, 10: 13, 11: 14}
"""Line by mutant number."""


def reached(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: int) -> tuple[Any, set[int]]:
    numbers: list[int] = []
    monkeypatch.setattr(builtins, "__mutant_reached__", lambda n: not numbers.append(n), raising=False)
    namespace: dict[str, Any] = {}
    exec(compile(text, "probed", "exec"), namespace)
    return namespace["kind"](*arguments), set(numbers)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((-1, 5), set()),
        ((0, 5), {3, 4, 7}),
        ((3, 5), {3, 4, 8}),
        ((7, 5), {3, 4, 8, 9, 10, 11}),
    ],
)
def test_statements_that_run_are_recorded(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[int, int], expected: set[int]
) -> None:
    probed = probes.with_probes(SOURCE, LINES)
    result, numbers = reached(monkeypatch, probed, *arguments)
    assert numbers == expected
    assert result == reached(monkeypatch, SOURCE, *arguments)[0]


def test_module_without_mutants_stays_as_it_is() -> None:
    assert probes.with_probes(SOURCE, {}) == SOURCE


def test_two_mutants_of_one_statement_are_both_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    probed = probes.with_probes(SOURCE, {1: 5, 2: 6, 3: 14, 4: 14})
    assert reached(monkeypatch, probed, 7, 5)[1] == {1, 2, 3, 4}


@pytest.mark.parametrize("head", ["", '"""A package."""\n', '"""A package."""\n\nfrom __future__ import annotations\n'])
def test_prologue_installs_probes_that_write_to_the_row_of_the_running_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, head: str
) -> None:
    path = tmp_path / "gw0.map"
    path.write_bytes(bytes(HEADER + 3 * 4))
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setattr(builtins, "__mutant_reached__", None, raising=False)
    exec(compile(probes.with_prologue(f"{head}NAME = 1\n", 4), "package", "exec"), {})
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as area:
        for running, number in ((0, 1), (2, 3)):
            area[0] = running
            assert builtins.__mutant_reached__(number) is True  # type: ignore[attr-defined]
        assert area[HEADER:] == bytes([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])


def test_probes_without_a_map_record_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(builtins, "__mutant_reached__", None, raising=False)
    exec(compile(probes.with_prologue("", 4), "package", "exec"), {})
    assert builtins.__mutant_reached__(3) is True  # type: ignore[attr-defined]
