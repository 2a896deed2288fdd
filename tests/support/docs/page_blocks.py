"""The code blocks of README.md and docs, and the shell commands in them.

A block has the kind that its info string names; an indented block is text. A CommonMark parser finds the blocks, so
that they are those that a reader sees.
"""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PYTHON = "python"
SHELL = "sh"
TEXT = "text"
FORMATS = ("bytes", "load")
"""Examples of docs/formats, which test_formats.py checks, like the text blocks there."""
CONFIGURATION = ("ini", "properties", "yaml")
KINDS = {PYTHON, SHELL, TEXT, *FORMATS, *CONFIGURATION}

_FILE_NAME = re.compile(r"# (?P<name>[\w.-]+\.\w+)\n")
_MARKDOWN = MarkdownIt()


class Block(NamedTuple):
    page: Path
    line: int
    """The line of the page with the first line of the text."""
    info: str
    text: str

    @property
    def kind(self) -> str:
        return self.info.split()[0] if self.info else ""

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def file_name(self) -> str | None:
        """The name in the first line of a configuration file, `# prometheus.yml`."""
        found = _FILE_NAME.match(self.text) if self.kind in CONFIGURATION else None
        return found["name"] if found else None


class Command(NamedTuple):
    """A line of a shell block: programs connected by pipes, and the file that takes the output."""

    where: str
    text: str
    programs: list[list[str]]
    target: str | None

    @property
    def words(self) -> list[str]:
        """Those of the last program, which is the one that a line is about."""
        return self.programs[-1]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


@functools.cache
def _tokens(content: str) -> list[Token]:
    return _MARKDOWN.parse(content)


def blocks(page: Path) -> list[Block]:
    content = page.read_text()
    lines = content.splitlines()
    found = []
    for token in _tokens(content):
        if token.type not in ("fence", "code_block"):
            continue
        assert token.map is not None
        start, end = token.map
        if token.type == "code_block":
            found.append(Block(page, start + 1, TEXT, token.content))
            continue
        is_closed = end - start > 1 and lines[end - 1].strip() == token.markup
        assert is_closed, f"{name_of(page)}:{start + 1}: the block has no end"
        found.append(Block(page, start + 2, token.info.strip(), token.content))
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a shell block. A comment on a line of its own is a command without programs."""
    found = []
    pending = ""
    first = block.line
    for number, line in enumerate(block.lines, block.line):
        if not pending:
            first = number
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        if pending.strip():
            found.append(command(pending, f"{name_of(block.page)}:{first}"))
        pending = ""
    assert not pending, f"{name_of(block.page)}:{first}: the command has no end"
    return found


def command(text: str, where: str) -> Command:
    """`a | b > file  # comment`, or `a <<< text`. Other operators of the shell are refused."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|><&;")
    lexer.whitespace_split = True
    programs: list[list[str]] = [[]]
    target: str | None = None
    for word in (words := iter(lexer)):
        if word == "|":
            programs.append([])
        elif word == ">":
            target = next(words)
        elif word == "<<<":
            programs.insert(-1, ["echo", next(words)])
        else:
            assert word[:1] not in tuple("|><&;"), f"{where}: {word} is not supported in code blocks"
            programs[-1].append(word)
    return Command(where, text.strip(), [each for each in programs if each], target)
