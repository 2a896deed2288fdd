"""Counts the phrases and names that docs/STYLE.md bans, for each package, and compares them with a committed table.

    python tools/language.py                  the differences from the table; exit code 1 if there are any
    python tools/language.py --update         lower the table to the present counts
    python tools/language.py --list PHRASE    every use of a phrase or name

The counts may only fall. `--update` never raises the sum of a phrase over all packages, but follows text that moves
between packages, and counts rows that are new in docs/STYLE.md. Deleting the table makes it count everything again.

A phrase is searched in prose: comments, string literals of several words, Markdown outside code. A name is searched in
code outside of strings, and in the names of Python files. The expressions within f-strings count as prose.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STYLE = "docs/STYLE.md"
TABLE = "tools/language_counts.json"
UPDATE = f"python {Path(TABLE).parent}/{Path(__file__).name} --update"

PYTHON = {".py", ".pxd"}
HASH_COMMENTS = {".toml", ".yml", ".yaml", ".properties", ""}  # no suffix: Makefile, .ci/run
WITHOUT_PROSE = {"LICENSE"}
DEEPER = {"src/tailrace"}  # each folder in these is an area; elsewhere an area is at most two levels deep
SHOWN = 20

_SPAN = re.compile(r"`([^`]+)`")
_STRING_OR_COMMENT = re.compile(
    r'''\#[^\n]*|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|\'\'\'[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*\'\'\''''
    r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*\'""",
    re.DOTALL,
)
_COMMENT = re.compile(r"(?m)(?<!\S)#[^\n]*")
_FENCE_OR_SPAN = re.compile(r"(?ms)^ *```.*?^ *```|`[^`\n]+`|(?<=\])\([^)\s]+\)|(?<=\n\n)(?: {4,}[^\n]*\n)+")
_JOINT = re.compile(r"[\s\\]*[rbufRBUF]{0,2}")  # what may be between two parts of one text
_WORD_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Use(NamedTuple):
    path: str
    line: int
    term: str
    text: str


class Rule(NamedTuple):
    """A row of one of the two tables. Its term is its first entry, for a name with `(name)` after it."""

    term: str
    entries: tuple[str, ...]
    instead: str
    allowed: tuple[str, ...] = ()


class Part(NamedTuple):
    start: int  # in the file
    text: str


class Language:
    """The banned phrases and names."""

    def __init__(self, phrases: Iterable[Rule], names: Iterable[Rule]) -> None:
        self._phrases = {" ".join(entry.lower().split()): rule for rule in phrases for entry in rule.entries}
        self._names = {entry: rule for rule in names for entry in rule.entries}
        self.rules = {rule.term: rule for rule in (*self._phrases.values(), *self._names.values())}
        longest_first = sorted(self._phrases, key=len, reverse=True)
        alternatives = "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in longest_first)
        self._phrase = re.compile(rf"\b(?:{alternatives})\b" if alternatives else r"(?!)")
        alternatives = "|".join(sorted(map(re.escape, {name.lower() for name in self._names}), key=len, reverse=True))
        self._candidate = re.compile(alternatives or r"(?!)")

    def phrases(self, prose: str) -> Iterator[tuple[int, Rule, str]]:
        for found in self._phrase.finditer(prose.lower().replace("’", "'")):
            phrase = " ".join(found[0].split())
            yield found.start(), self._phrases[phrase], phrase

    def names(self, code: str) -> Iterator[tuple[int, Rule, str]]:
        end = 0
        for found in self._candidate.finditer(code.lower()):
            if found.start() < end:
                continue  # a name that was looked at
            start = end = found.start()
            while start and (code[start - 1].isalnum() or code[start - 1] == "_"):
                start -= 1
            while end < len(code) and (code[end].isalnum() or code[end] == "_"):
                end += 1
            name = code[start:end]
            for rule in self.rules_of_name(name):
                yield start, rule, name

    def rules_of_name(self, name: str) -> list[Rule]:
        words = _WORD_OF_NAME.findall(name)
        return [rule for entry, rule in self._names.items() if _bans(entry, name, words, rule.allowed)]


def _bans(entry: str, name: str, words: list[str], allowed: tuple[str, ...]) -> bool:
    if entry.startswith("_"):
        return name == entry
    if not entry.isupper():
        words = [word.lower() for word in words]
    text = f" {' '.join(words)} "
    for exception in allowed:
        text = text.replace(f" {exception.replace('_', ' ')} ", " ")
    return f" {entry.replace('_', ' ')} " in text


def read_style(page: str) -> Language:
    """The tables of the sections `Phrases` and `Names` at the end of the page."""
    sections = dict(section.split("\n", 1) for section in re.split(r"(?m)^### ", page)[1:])
    return Language(_rows(sections["Phrases"], ""), _rows(sections["Names"], " (name)"))


def _rows(section: str, kind: str) -> Iterator[Rule]:
    for line in section.splitlines():
        if line.startswith("| `"):
            entries, instead, allowed = (*map(str.strip, line.strip("| ").split("|")), "")[:3]
            words = tuple(_SPAN.findall(entries))
            yield Rule(words[0] + kind, words, instead, tuple(_SPAN.findall(allowed)))


def split_python(source: str) -> tuple[list[Part], list[Part]]:
    """Prose and code of a Python file: one part for each literal and comment, and for what is between them."""
    prose, code, end = [], [], 0
    for found in _STRING_OR_COMMENT.finditer(source):
        start, stop = found.span()
        code.append(Part(end, source[end:start]))
        prose.append(Part(start, found[0]))
        end = stop
    code.append(Part(end, source[end:]))
    return prose, code


class Joined:
    """Parts of a file as one text in which phrases can be found across line ends, with the way back to lines."""

    def __init__(self, source: str, parts: list[Part]) -> None:
        self._source = source
        self._starts: list[int] = []  # in the joined text
        self._origins: list[int] = []  # in the file
        pieces: list[str] = []
        length, end = 0, 0
        for start, text in parts:
            gap = source[end:start]
            joint = " " if _JOINT.fullmatch(gap) else "\0"
            end = start + len(text)
            stripped = text.lstrip("#\"'")
            skipped = len(text) - len(stripped)
            piece = joint + stripped.rstrip("\"'")
            self._starts.append(length + 1)
            self._origins.append(start + skipped)
            pieces.append(piece)
            length += len(piece)
        self.text = "".join(pieces)

    def line(self, at: int) -> int:
        part = max(bisect_right(self._starts, at) - 1, 0)
        return self._source.count("\n", 0, self._origins[part] + at - self._starts[part]) + 1


def _is_prose(part: Part) -> bool:
    return part.text[0] == "#" or " " in part.text.strip("\"' ")


def _in_runs(source: str, parts: list[Part]) -> Iterator[list[Part]]:
    """Parts grouped by text: literals and comments that follow each other directly are one text."""
    run: list[Part] = []
    for part in parts:
        if run and not _JOINT.fullmatch(source, run[-1].start + len(run[-1].text), part.start):
            yield run
            run = []
        run.append(part)
    yield run


def prose_of(path: str, source: str) -> list[Part]:
    suffix = Path(path).suffix
    if suffix in PYTHON:
        runs = _in_runs(source, split_python(source)[0])
        return [part for run in runs if any(map(_is_prose, run)) for part in run]
    if suffix == ".md":
        blanked = _FENCE_OR_SPAN.sub(lambda found: "\0" * len(found[0]), source)
        return [Part(0, blanked)]
    return [Part(found.start(), found[0]) for found in _COMMENT.finditer(source)]


def uses_in(language: Language, path: str, source: str) -> Iterator[Use]:
    prose = Joined(source, prose_of(path, source))
    for at, rule, phrase in language.phrases(prose.text):
        yield Use(path, prose.line(at), rule.term, phrase)
    if Path(path).suffix in PYTHON:
        for rule in language.rules_of_name(Path(path).stem):
            yield Use(path, 1, rule.term, Path(path).name)
        for start, text in split_python(source)[1]:
            for at, rule, name in language.names(text):
                yield Use(path, source.count("\n", 0, start + at) + 1, rule.term, name)


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every file that the rules apply to; what is made, generated or hidden is left out."""
    for folder, folders, files in os.walk(root):
        is_root = Path(folder) == root
        folders[:] = sorted(name for name in folders if _is_ours(name, is_root))
        for name in sorted(files):
            suffix = Path(name).suffix
            path = Path(folder, name)
            if suffix in PYTHON | {".md"} or (suffix in HASH_COMMENTS and name not in WITHOUT_PROSE and is_root):
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
    run = root / ".ci" / "run"
    if run.exists():
        yield ".ci/run", run.read_text(encoding="utf-8")


def _is_ours(folder: str, is_root: bool) -> bool:
    if folder.startswith(".") or folder == "__pycache__" or folder.endswith(".egg-info"):
        return False
    return not (is_root and folder in {"build", "dist", "data"})


def area(path: str) -> str:
    """The package that a file is counted for."""
    folders = path.split("/")[:-1]
    if "/".join(folders[:2]) in DEEPER:
        return "/".join(folders[:3])
    return "/".join(folders[:2]) or path


def count(uses: Iterable[Use]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for use in uses:
        counts.setdefault(use.term, Counter())[area(use.path)] += 1
    return {term: dict(sorted(areas.items())) for term, areas in sorted(counts.items())}


class Difference(NamedTuple):
    term: str
    area: str
    allowed: int
    found: int


def differences(table: dict[str, dict[str, int]], found: dict[str, dict[str, int]]) -> list[Difference]:
    compared = []
    for term in sorted(table.keys() | found.keys()):
        before, now = table.get(term, {}), found.get(term, {})
        names = sorted(before.keys() | now.keys())
        compared += [Difference(term, name, before.get(name, 0), now.get(name, 0)) for name in names]
    return [difference for difference in compared if difference.allowed != difference.found]


def lowered(
    table: dict[str, dict[str, int]], found: dict[str, dict[str, int]], terms: Iterable[str]
) -> dict[str, dict[str, int]]:
    """The table that `--update` writes: every term of the style page, none with a greater sum than before."""
    made = {}
    for term in sorted(terms):
        before, now = table.get(term), found.get(term, {})
        if before is None or sum(now.values()) <= sum(before.values()):
            made[term] = now
        else:
            made[term] = {name: min(now.get(name, 0), most) for name, most in before.items() if now.get(name)}
    return made


def report(
    language: Language, listed: list[Difference], uses: list[Use], added: Callable[[str], set[int]] | None
) -> list[str]:
    """What a contributor needs to know: each new use with what to write instead, then the command for what fell."""
    lines = []
    for term, name, allowed, found in listed:
        if found <= allowed:
            continue
        of_area = [use for use in uses if use.term == term and area(use.path) == name]
        new = [use for use in of_area if added is None or use.line in added(use.path)] or of_area
        instead = language.rules[term].instead
        lines.append(f"{name}: `{term}` rose from {allowed} to {found}; write instead: {instead}")
        lines += [f"  {use.path}:{use.line}: {use.text}" for use in new[:SHOWN]]
        if len(new) > SHOWN:
            lines.append(f"  and {len(new) - SHOWN} more: python tools/language.py --list '{term}'")
    fallen = [line for line in listed if line.found < line.allowed]
    lines += [f"{name}: `{term}` fell from {allowed} to {found}" for term, name, allowed, found in fallen]
    if fallen:
        lines.append(f"counts that fell stay low: run `{UPDATE}` and commit {TABLE}")
    return lines


def lines_added_since_table(root: Path) -> Callable[[str], set[int]] | None:
    """Lines of a file that the commit of the table did not have; None where git cannot say."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout

    try:
        commit = git("log", "-1", "--format=%H", "--", TABLE).strip()
        patch = git("diff", "--unified=0", "--find-renames", "--no-color", commit, "--") if commit else None
        untracked = set(git("ls-files", "--others", "--exclude-standard").splitlines()) if commit else set()
    except (OSError, subprocess.CalledProcessError):
        return None
    if patch is None:
        return None
    added: dict[str, set[int]] = {}
    lines: set[int] = set()
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            lines = added.setdefault(line[6:], set())
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            lines |= set(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
    everything = set(range(1, 100_000))
    return lambda path: everything if path in untracked else added.get(path, set())


def measure(root: Path) -> tuple[Language, list[Use]]:
    language = read_style((root / STYLE).read_text(encoding="utf-8"))
    return language, [use for path, text in texts(root) for use in uses_in(language, path, text)]


def read_table(root: Path) -> dict[str, dict[str, int]]:
    path = root / TABLE
    return json.loads(path.read_text()) if path.exists() else {}


def main(words: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="count the phrases and names that docs/STYLE.md bans")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--update", action="store_true", help="lower the table to the present counts")
    choice.add_argument("--list", metavar="PHRASE", help="list every use of a phrase or name")
    args = parser.parse_args(words)
    language, uses = measure(root)
    if args.list is not None:
        terms = {rule.term for rule in language.rules.values() if args.list in (rule.term, *rule.entries)}
        if not terms:
            parser.error(f"{STYLE} does not ban {args.list!r}")
        wanted = [use for use in uses if use.term in terms]
        print("\n".join(f"{use.path}:{use.line}: {use.text}" for use in wanted))
        return 0
    found = count(uses)
    if args.update:
        table = lowered(read_table(root), found, language.rules)
        (root / TABLE).write_text(json.dumps(table, indent=1) + "\n")
    lines = report(language, differences(read_table(root), found), uses, lines_added_since_table(root))
    print("\n".join(lines) if lines else f"{len(uses)} banned phrases and names, as in {TABLE}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
