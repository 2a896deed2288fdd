"""The documents speak of what is there: paths, modules, classes, functions, tests, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_names import PACKAGE, ROOT, names_of_tests, source_names

from tailrace.config.log import LogConfig
from tailrace.config.overrides import ClientMetricsConfig, GroupOverrides
from tailrace.config.server import server_keys
from tailrace.config.table import keys_of
from tailrace.metadata.versions import SINGLE_REPLICAS, SUPPORTED_FEATURES
from tailrace.raft.bootstrap import BOOTSTRAP_FILE
from tailrace.storage import names
from tailrace.storage.manager.meta_properties import META_PROPERTIES_FILE

DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The checklist names parts of Kafka, and the style page lists names that the sources must not have.
OF_OUR_CODE = [path for path in DOCUMENTS if path.name not in {"spec-checklist.md", "STYLE.md"}]

SETTINGS = {
    *server_keys(),
    *(name for table in (LogConfig, GroupOverrides, ClientMetricsConfig) for name in keys_of(table)),
}
# Words that look like names of ours and are Kafka's, Python's or Make's.
FOREIGN = {"SunX509", "LogAppendTime", "CreateTime", "read_committed", "read_uncommitted", "fsync"}
FOREIGN |= {"FetchConsumer", "FetchFollower", "PerSec"}
FOREIGN |= {"cluster.id", "directory.id", "data_version"}
FOREIGN |= {"pyspark_tailrace", "partition.metadata.cache.ttl.ms"}
# Files of a data directory whose names look like a module and what is in it.
FILES = {names.PARTITION_METADATA, BOOTSTRAP_FILE, META_PROPERTIES_FILE}
FEATURES = {*SUPPORTED_FEATURES, SINGLE_REPLICAS}
# Made by `make`, not in the repository.
MADE = {".venv", ".spec-results", "dist"}

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_MACHINE_PATH = re.compile(r"(?<![\w./~-])(/(?:home|Users|root|work|tmp|mnt|opt|srv|var)\b|[A-Z]:\\)")

_SETTING_OF_SPARK = re.compile(r"spark\.(?!source\b|sink\b|options\b)[a-z]+\.")
_METRIC = re.compile(r"(?:kafka|process|tailrace_table)_")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:py|md|toml|java)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CLASS = re.compile(r"(?:[A-Z][a-z0-9]+){2,}")
_NAME = re.compile(r"([A-Za-z_]\w*(?=\(\))|[a-z]+(?:_[a-z0-9]+)+)(?:\(\))?")


def spans(document: Path) -> list[str]:
    """What stands in backticks, outside of fenced blocks."""
    return _SPAN.findall(_FENCE.sub("", document.read_text()))


def problem_of(span: str, document: Path) -> str | None:
    """What is wrong with a name in backticks; None for a good one, and for whatever is no name of ours."""
    known = source_names()
    if _METRIC.match(span):
        return None  # test_grafana_dashboard.py and test_tables_page.py look after these
    if _SETTING_OF_SPARK.match(span) and known.has(span) is False:
        return None
    if span in FOREIGN or span in SETTINGS or span in FILES | FEATURES:
        return None
    problem = None
    if re.fullmatch(r"test_\w+", span):
        is_there = any(span in functions for functions in names_of_tests().values())
        problem = None if is_there else "is no test"
    elif _PATH.fullmatch(span):
        problem = _problem_of_path(span, document)
    elif _DOTTED.fullmatch(span):
        problem = "is not in the sources" if known.has(span) is False else None
    elif _CLASS.fullmatch(span):
        problem = None if span in known.classes else "is no class of ours"
    elif name := _NAME.fullmatch(span):
        problem = None if name[1] in known.identifiers else "is no name in the sources"
    return problem


def _problem_of_path(span: str, document: Path) -> str | None:
    head = span.split("/")[0]
    if head in MADE:
        return None
    places = [ROOT, document.parent, PACKAGE, PACKAGE / "record"]
    if any((place / span).exists() for place in places):
        return None
    if re.fullmatch(r"test_\w+\.py", span):
        return None if span in names_of_tests() else "is no test file"
    if "/" in span and not any((place / head).exists() for place in places):
        return None  # a path elsewhere: of a data directory, say
    return "does not exist"


@pytest.mark.parametrize("document", OF_OUR_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_named_exists(document: Path) -> None:
    found = [(span, problem_of(span, document)) for span in spans(document)]
    assert [f"`{span}` {problem}" for span, problem in found if problem] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for target in _LINK.findall(_FENCE.sub("", document.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (document.parent / path).resolve() if path else document
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def anchors(document: Path) -> set[str]:
    """Headings as GitHub makes links of them."""
    headings = _HEADING.findall(_FENCE.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_path_of_somebodys_machine(document: Path) -> None:
    assert [line for line in document.read_text().splitlines() if _MACHINE_PATH.search(line)] == []


def test_decisions_are_numbered_and_titled() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    for number, path in enumerate(decisions, 1):
        assert path.name.startswith(f"{number:04d}-")
        assert path.read_text().startswith(f"# {number:04d} · ")


@pytest.mark.parametrize(
    ("span", "is_bad"),
    [
        ("src/tailrace/storage/loader.py", False),
        ("src/tailrace/storage/no_such.py", True),
        ("storage/loader.py", False),
        ("storage/no_such.py", True),
        ("docs/no-such.md", True),
        ("record-batch.md", False),
        ("test_docs.py", False),
        ("test_no_such.py", True),
        ("test_decisions_are_numbered_and_titled", False),
        ("test_no_such_thing", True),
        ("loader.load", False),
        ("loader.no_such", True),
        ("storage.loader", False),
        ("storage.no_such", True),
        ("tailrace.storage.loader.load", False),
        ("LocalLog.cut_off", False),
        ("LocalLog.no_such", True),
        ("LocalLog.recovery_point", False),
        ("local_log.LocalLog.end_offset", False),
        ("OffsetIndex.sync", False),
        ("SegmentRecovery", False),
        ("NoSuchThing", True),
        ("invariant()", False),
        ("no_such()", True),
        ("was_clean", False),
        ("never_said", True),
        ("segment.bytes", False),
        ("segment.no_such", True),
        ("os.sendfile", False),
        ("LogAppendTime", False),
        ("make test", False),
        (".venv/bin/pytest", False),
    ],
)
def test_the_check_catches_what_is_not_there(span: str, is_bad: bool) -> None:
    assert (problem_of(span, ROOT / "docs" / "formats" / "README.md") is not None) is is_bad


@pytest.mark.parametrize("line", ["see /home/me/x", "in /tmp/kafka", "C:\\logs"])
def test_machine_paths_are_caught(line: str) -> None:
    assert _MACHINE_PATH.search(line)


@pytest.mark.parametrize("line", ["tests/tmp", "a/home/b", "/data/t-0", "make PYTHON=/path/to/python"])
def test_other_paths_are_not(line: str) -> None:
    assert not _MACHINE_PATH.search(line)
