"""The runner of code blocks fails where a reader would stumble, and names the page and the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.docs import page_run
from support.docs.page_blocks import SHELL, TEXT, Block, blocks, command, commands
from support.docs.page_run import PageRun

Run = Callable[[str], PageRun]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Run:
    """Run a page with this text."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> PageRun:
        page = tmp_path / "page.md"
        page.write_text(text)
        with PageRun(page, tmp_path, request.getfixturevalue) as running:
            running.run()
        return running

    return run


def python(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```", ""])


def shell(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```", ""])


def test_blocks_have_their_lines_and_kinds(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```sh\nmake\n```\n\n    indented\n\n1. item\n\n    continued\n\n```bytes record\n00\n```\n"
    )
    assert blocks(page) == [
        Block(page, 4, "sh", "make\n"),
        Block(page, 7, TEXT, "indented\n"),
        Block(page, 14, "bytes record", "00\n"),
    ]
    assert [each.kind for each in blocks(page)] == [SHELL, TEXT, "bytes"]


def test_a_block_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("text\n```sh\nmake\n")
    with pytest.raises(AssertionError, match=r"page\.md:2: the block has no end"):
        blocks(tmp_path / "page.md")


def test_commands_have_programs_and_a_target(tmp_path: Path) -> None:
    block = Block(
        tmp_path / "page.md", 7, SHELL, "seq 3 | cat > 'a file'  # text\n\ncat \\\n  x\n# only text\ncat <<< 1\n"
    )
    assert [(each.where, each.programs, each.target) for each in commands(block)] == [
        ("page.md:7", [["seq", "3"], ["cat"]], "a file"),
        ("page.md:9", [["cat", "x"]], None),
        ("page.md:11", [], None),
        ("page.md:12", [["echo", "1"], ["cat"]], None),
    ]


@pytest.mark.parametrize("text", ["a && b", "a; b", "a < b", "a &"])
def test_other_operators_of_the_shell_are_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="not supported in code blocks"):
        command(text, "page.md:1")


def test_python_blocks_share_a_namespace(run: Run) -> None:
    assert run(python("first = 1") + python("second = first + 1")).namespace["second"] == 2


def test_a_name_that_the_page_does_not_define_is_an_error_with_its_line(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"^page\.md:3: NameError\(\"name 'spark' is not defined\"\)"):
        run(python("x = 1", "spark.range(x)"))


def test_an_error_below_the_page_has_the_line_of_the_page(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"^page\.md:4: JSONDecodeError"):
        run(python("import json", "", "json.loads('{')"))


def test_a_syntax_error_has_its_line(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"^page\.md:3: SyntaxError"):
        run(python("x = 1", "x ="))


def test_test_functions_of_a_page_run_with_their_fixtures(run: Run) -> None:
    page = run(python("folders = []", "def test_it(tmp_path): folders.append(tmp_path)"))
    assert page.namespace["folders"] == [page.folder]
    with pytest.raises(AssertionError, match=r"^page\.md:3: AssertionError"):
        run(python("def test_it():", "    assert 1 == 2"))


def test_output_in_a_comment_must_be_printed(run: Run) -> None:
    run(python("print(1 + 1)  # 2", "print(3)"))
    with pytest.raises(AssertionError, match=r"^page\.md:3: 3 is not printed, but '2\\n'"):
        run(python("x = 1", "print(x + 1)  # 3"))


def test_a_warning_about_code_of_the_page_is_an_error(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"^page\.md:3: DeprecationWarning"):
        run(python("import datetime", "from warnings import warn; warn('old', DeprecationWarning)"))


def test_commands_run_in_the_folder_with_pipes_and_files(run: Run) -> None:
    page = run(shell("seq 3 | grep 2 > found", "cat found"))
    assert (page.folder / "found").read_text() == "2\n"


def test_a_configuration_block_is_written_to_the_file_it_names(run: Run) -> None:
    page = run("```ini\n# some.ini\n[x]\n```\n" + shell("cat some.ini"))
    assert (page.folder / "some.ini").read_text() == "# some.ini\n[x]\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("grep x nosuch", "exit code 2: .*nosuch"),
        ("true", "true shows nothing"),
        ("tailrace log dump nosuch", "exit code 1: error: "),
        ("tailrace log dump --nosuch", "exit code 2: usage: "),
        ("tailrace serve --nosuch", "usage: "),
        ("tailrace pipeline table orders --nosuch --trigger 10s", "usage: "),
    ],
)
def test_a_command_that_fails_is_named_with_its_line(run: Run, line: str, message: str) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)^page\.md:3: .*{message}"):
        run(shell("# first", line))


def test_following_a_topic_shows_records_or_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --from, `consume --follow` begins behind what is there: an empty screen."""
    filled = shell("tailrace topic create numbers", "seq 10 | tailrace produce numbers")
    run(filled + shell("tailrace consume numbers --from earliest --follow"))
    monkeypatch.setattr(page_run, "FIRST_LINE_S", 0.5)
    with pytest.raises(AssertionError, match=r"^page\.md:3: tailrace consume numbers --follow shows nothing"):
        run(shell("# On the topic of before:", "tailrace consume numbers --follow"))
