"""Small repositories whose tests are to be selected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from changed_tests import Found, find
from selection.trees import FactsCache, Git, Tree

LOG = "src/tailrace/storage/log.py"
NAMES = "src/tailrace/storage/names.py"
TEST = "tests/unit/test_log.py"

TREE = {
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
    "src/tailrace/__init__.py": "",
    "src/tailrace/storage/__init__.py": "from tailrace.storage.log import Log\n",
    LOG: """\
from tailrace.storage import names
LIMIT = 10
class Log:
    def __init__(self): self.records = []
    def append(self, record): self.records.append(check(record))
    def newest(self): return self.records[-1]
def check(record):
    return record[:LIMIT]
def unused(): ...
""",
    NAMES: "SUFFIX = '.log'\ndef name(offset): return f'{offset}{SUFFIX}'\n",
    "tests/support/logs/builders.py": """\
from tailrace.storage import Log
def filled():
    log = Log()
    log.append('x')
    return log
""",
    TEST: """\
import pytest
from support.logs.builders import filled
from tailrace.storage.names import name
@pytest.fixture
def log(): return filled()
def test_append(log): assert log.records
def test_newest(log): assert log.newest()
def test_name(): assert name(1)
""",
}
EVERY_TEST = {"test_append", "test_newest", "test_name"}


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.git = Git(root)
        self.git("init", "-q")
        self.add(TREE)

    def write(self, files: Mapping[str, str | None]) -> None:
        for path, text in files.items():
            file = self.root / path
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "docs: Add a tree")

    def add(self, files: Mapping[str, str]) -> None:
        self.write(files)
        self.commit()

    def find(self) -> Found:
        return find(Tree.of_commit(self.git, "HEAD"), Tree.of_working_tree(self.git), FactsCache(self.root / "cache"))

    def selected(self) -> set[str]:
        return {test.name for test in self.find().selection.tests}

    def change(self, path: str, old: str, new: str) -> set[str]:
        """The selected tests after a replacement in a file."""
        text = (self.root / path).read_text()
        assert old in text
        self.write({path: text.replace(old, new)})
        return self.selected()
