"""Checks the subjects of commits: `area: Verb object`, at most 72 characters, without a phrase that docs/STYLE.md bans.

    python tools/commit_subjects.py           every commit after the one that added docs/STYLE.md
    python tools/commit_subjects.py FILE      the message in a file, as git gives it to a commit-msg hook

Commits that are older than the rule keep their subjects. Merges and reverts have the subjects that git writes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from language import ROOT, STYLE, Language, read_style

MAX_LENGTH = 72

_SUBJECT = re.compile(r"[a-z0-9][\w./-]*(?:, [a-z0-9][\w./-]*)*: (?P<object>\S.*)")
_BY_GIT = re.compile(r"Merge |Revert \"|fixup! |squash! ")


def problems(subject: str, language: Language) -> list[str]:
    """What is wrong with a subject."""
    if _BY_GIT.match(subject):
        return []
    found = []
    if len(subject) > MAX_LENGTH:
        found.append(f"{len(subject)} characters, the maximum is {MAX_LENGTH}")
    parts = _SUBJECT.fullmatch(subject)
    if parts is None:
        found.append("does not start with an area and a colon, as in `storage: Sync the directory`")
    elif not re.match(r"[A-Z][a-z]+ \S", parts["object"]):
        found.append("the area is not followed by a capitalized verb and its object")
    if subject.endswith("."):
        found.append("ends with a period")
    found += [f"`{phrase}`: write instead: {rule.instead}" for _, rule, phrase in language.phrases(subject)]
    return found


def subjects_since_rule(root: Path) -> list[tuple[str, str]]:
    """(short hash, subject) of the commits after the one that added the style page."""

    def git(*words: str) -> list[str]:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    try:
        added = git("log", "--diff-filter=A", "--format=%H", "--", STYLE)
    except (OSError, subprocess.CalledProcessError):
        added = []  # no git, or no repository
    if not added:
        return []
    lines = git("log", "--no-merges", "--format=%h %s", f"{added[-1]}..HEAD")
    return [(commit, subject) for commit, _, subject in (line.partition(" ") for line in lines)]


def main(words: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="check the subjects of commits")
    parser.add_argument("file", nargs="?", type=Path, help="file with one commit message")
    args = parser.parse_args(words)
    language = read_style((root / STYLE).read_text(encoding="utf-8"))
    if args.file is not None:
        lines = [line for line in args.file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        checked = [("message", next((line for line in lines if line.strip()), ""))]
    else:
        checked = subjects_since_rule(root)
    failed = False
    for commit, subject in checked:
        for problem in problems(subject, language):
            failed = True
            print(f"{commit}: {subject}\n  {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
