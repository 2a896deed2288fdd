"""The counts of banned phrases and names may only fall, and the counter distinguishes prose from names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import language
from language import Language, Use, area, count, differences, lowered, main, measure, read_style, uses_in

PAGE = """\
# Style
| `anyone` | outside the tables, so not banned |

### Phrases
| phrase | write instead |
|---|---|
| `red fish`, `red fish-tail` | a number |
| `of Acme's` | the Acme … |
| `fix`, `fixed` | repair |

### Names
| name | write instead | allowed |
|---|---|---|
| `GIANT` | `MAX_…` | |
| `blob`, `blobs` | index, position | `in_blob` |
| `no_fish`, `_void` | `noop` | |
"""
STYLE = read_style(PAGE)


def found(source: str, path: str = "src/tailrace/storage/log.py", style: Language = STYLE) -> list[tuple[int, str]]:
    return [(use.line, use.text) for use in uses_in(style, path, source)]


def test_no_banned_phrase_or_name_is_added() -> None:
    style, uses = measure(language.ROOT)
    listed = differences(language.read_table(language.ROOT), count(uses))
    added = language.lines_added_since_table(language.ROOT) if listed else None
    assert "\n".join(language.report(style, listed, uses, added)) == ""


def test_every_banned_phrase_and_name_is_in_the_table() -> None:
    style = read_style((language.ROOT / language.STYLE).read_text())
    assert language.read_table(language.ROOT).keys() == style.rules.keys()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# red fish records", [(1, "red fish")]),
        ("x = 1  # as red\n# Fish swim", [(1, "red fish")]),
        ('"""Reads.\n\nThe format of\nAcme\'s logs.\n"""', [(3, "of acme's")]),
        ("'the format of Acme’s logs'", [(1, "of acme's")]),
        ("raise E(\n    f'{count} of red '\n    f'fish'\n)", [(2, "red fish")]),
        ("call('as red', 'fish others')", []),
        ("# red\nx = 1\n# fish", []),
        ("x = {'fix': 1}", []),
        ("x = 'fix it'", [(1, "fix")]),
        ("# affix, prefix", []),
        ("# the red fish-tail", [(1, "red fish-tail")]),
    ],
    ids=str,
)
def test_phrases_are_found_in_prose(source: str, expected: list[tuple[int, str]]) -> None:
    assert found(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    blob = 1", [(2, "blob")]),
        ("next_blob = Blob(other.blobs)", [(1, "next_blob"), (1, "Blob"), (1, "blobs")]),
        ("text.reblob(blobster, misblobed)", []),
        ("is_in_blob = sort_in_blob(x)", []),
        ("in_blob = blob_in_blob", [(1, "blob_in_blob")]),
        ("_GIANT_BYTES = at_giant = giant_one", [(1, "_GIANT_BYTES")]),
        ("def _no_fish(): ...", [(1, "_no_fish")]),
        ("call(_void, void, _void_it)", [(1, "_void")]),
        ("# a blob, GIANT of it", []),
        ("x = 'blob'", []),
        ("fix = 1", []),
    ],
    ids=str,
)
def test_names_are_found_in_code(source: str, expected: list[tuple[int, str]]) -> None:
    assert found(source) == expected


def test_name_of_a_module_counts() -> None:
    assert found("", "src/tailrace/storage/blob_list.py") == [(1, "blob_list.py")]


def test_markdown_counts_outside_of_code() -> None:
    code = "```\nred fish\n```\n\n    red fish\n"
    text = f"red fish\n\n`red fish` [red fish](red%20fish)\n\n{code}\n- a list of red\n  fish words\n"
    assert found(text, "docs/log.md") == [(1, "red fish"), (3, "red fish"), (11, "red fish")]


def test_comments_of_other_files_count() -> None:
    assert found("run: setup ## red fish\n\techo red fish\n", "Makefile") == [(1, "red fish")]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/tailrace/storage/cleaner/cleaner.py", "src/tailrace/storage"),
        ("src/tailrace/__init__.py", "src/tailrace"),
        ("tests/unit/storage/test_log.py", "tests/unit"),
        ("tests/conftest.py", "tests"),
        ("docs/decisions/0001-cython.md", "docs/decisions"),
        ("README.md", "README.md"),
    ],
)
def test_counts_are_per_package(path: str, expected: str) -> None:
    assert area(path) == expected


def test_lowered_table_follows_falls_and_moves_but_no_rise() -> None:
    table = {"fell": {"a": 3, "b": 1}, "moved": {"a": 2}, "rose": {"a": 2, "b": 2}, "unbanned": {"a": 1}}
    found = {"fell": {"a": 2}, "moved": {"b": 2}, "rose": {"a": 1, "b": 4}, "new": {"a": 5}}
    expected = {"fell": {"a": 2}, "moved": {"b": 2}, "new": {"a": 5}, "none": {}, "rose": {"a": 1, "b": 2}}
    assert lowered(table, found, ["fell", "moved", "rose", "new", "none"]) == expected | {"none": {}}


def test_rise_is_reported_with_the_new_uses_alone() -> None:
    uses = [Use("docs/a.md", line, "red fish", "red fish") for line in (1, 5, 9)]
    lines = language.report(STYLE, differences({"red fish": {"docs": 2}}, count(uses)), uses, lambda path: {5})
    assert lines == ["docs: `red fish` rose from 2 to 3; write instead: a number", "  docs/a.md:5: red fish"]


def test_fall_is_reported_with_the_command() -> None:
    lines = language.report(STYLE, differences({"red fish": {"docs": 2}}, {}), [], None)
    assert lines[0] == "docs: `red fish` fell from 2 to 0"
    assert language.UPDATE in lines[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one use of a phrase, and its table."""
    for folder in ("docs", "tools"):
        (tmp_path / folder).mkdir()
    (tmp_path / language.STYLE).write_text(PAGE)
    (tmp_path / "README.md").write_text("red fish\n")
    assert main(["--update"], tmp_path) == 0
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "docs: Add a page"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    return tmp_path


def test_new_line_is_named_and_cannot_be_added_to_the_table(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "README.md").write_text("more\nred fish\nand red fish\n")
    for words in ([], ["--update"]):
        capsys.readouterr()
        assert main(words, tree) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines == [
            "README.md: `red fish` rose from 1 to 2; write instead: a number",
            "  README.md:3: red fish",
        ]


def test_new_file_is_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "CHANGELOG.md").write_text("\n\nred fish\n")
    assert main([], tree) == 1
    assert "  CHANGELOG.md:3: red fish" in capsys.readouterr().out


def test_uses_are_listed_by_any_spelling(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["--list", "red fish-tail"], tree) == 0
    assert capsys.readouterr().out == "README.md:1: red fish\n"
    with pytest.raises(SystemExit):
        main(["--list", "plain words"], tree)
