"""An audit finds every planted fault, with its file, offset and rule, and nothing else; and nothing in what is clean.

All faults are planted beside each other and found by one audit. Clean directories are ours, and those that a real Kafka
4.3.1 left behind (`tests/golden`); brokers that are at work meanwhile are in `test_audit_busy` and, Kafka's, in
`tests/compat/test_audit_on_kafka.py`.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden.corpus import LOG_DIRS, cases
from support.audit.injected_faults.catalog import Case, Expected, Fault, all_faults, plant_all
from support.audit.logs import LogDirectory, busy, table
from tailrace.spark.auditing.audit import audit
from tailrace.spark.auditing.audit_report import AuditReport
from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.rules import NOTE, RULES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAULTS = all_faults()
QUORUMS = Path(__file__).parents[1] / "golden" / "kafka-4.3.1-quorum"


@dataclass
class Found:
    report: AuditReport
    cases: dict[str, tuple[Case, Expected]]
    by_case: dict[str, list[Finding]]


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Found:
    root = tmp_path_factory.mktemp("planted")
    planted = plant_all(root)
    report = audit(*(str(path) for path in sorted(root.glob("*/*"))), session=spark)
    by_case: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_case[Path(finding.file).relative_to(root).parts[0]].append(finding)
    return Found(report, planted, by_case)


def test_there_are_enough_of_all_kinds(found: Found) -> None:
    expected = [expected for _, expected in found.cases.values()]
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
    kinds = {each.rule for each in expected}
    not_planted = {name for name, rule in RULES.items() if rule.severity != NOTE} - kinds
    assert not_planted == {"mixed-clusters"}, "which is about all directories: it has a test of its own"
    assert not found.report.is_clean


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_planted_fault_is_found(found: Found, fault: Fault) -> None:
    case, expected = found.cases[fault.name]
    findings = found.by_case[fault.name]
    wanted = (expected.rule, str(case.root / expected.file), expected.offset)
    places = [(each.rule, each.file, each.offset) for each in findings]
    assert wanted in places
    others = [each for each in findings if (each.rule, each.file, each.offset) != wanted]
    assert [each for each in others if each.rule not in expected.also] == []


def test_findings_are_of_nothing_but_what_was_planted(found: Found) -> None:
    assert set(found.by_case) == set(found.cases)
    assert found.report.by_severity["error"] >= 60


def test_rows_of_the_report(found: Found, spark: SparkSession) -> None:
    frame = found.report.frame(spark)
    assert frame.columns == ["file", "partition", "offset", "rule", "severity", "words", "position"]
    assert frame.where("rule = 'sequence-gap'").count() == found.report.by_rule["sequence-gap"]


def audited(spark: SparkSession, *directories: Path | LogDirectory) -> AuditReport:
    return audit(*map(str, directories), session=spark)


def test_clean_directories_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    directories = [LogDirectory(tmp_path / str(node), node=node) for node in (1, 2, 3)]
    for directory in directories:
        directory.put("busy-0", busy())
        directory.put("table-0", table(is_cleaned=directory is not directories[1]))
    (directories[0] / ".kafka_cleanshutdown").unlink()
    report = audited(spark, *directories)
    assert report.findings == ()
    assert (report.directories, report.partitions) == (3, 6)


@pytest.mark.parametrize("ending", ["clean", "killed"])
def test_clean_directories_of_kafka(spark: SparkSession, tmp_path: Path, ending: str) -> None:
    """All codecs and formats, transactions, compaction, leader changes; shut down cleanly, or killed."""
    wanted = [golden for golden in cases() if golden.was_killed == (ending == "killed")]
    shutil.copytree(LOG_DIRS / ending, tmp_path / "log")
    for golden in wanted:
        golden.copy_to(tmp_path / "log")
    _forget_left_out(tmp_path / "log")
    _let_end(tmp_path / "log")
    report = audited(spark, tmp_path / "log")
    assert report.findings == ()
    assert report.partitions == len(wanted)


def _forget_left_out(log_dir: Path) -> None:
    """Partitions that Kafka had and the corpus has not: to an audit they are lost."""
    for path in log_dir.glob("*-offset-checkpoint"):
        head, lines = path.read_text().splitlines()[:1], path.read_text().splitlines()[2:]
        kept = [line for line in lines if (log_dir / "-".join(line.split()[:2])).is_dir()]
        if kept:
            path.write_text("\n".join([*head, str(len(kept)), *kept, ""]))


def _let_end(log_dir: Path) -> None:
    """Files get the time at which the broker ended, as in a copy that keeps times: open transactions are young then."""
    started = (log_dir / "meta.properties").read_text().splitlines()[1]
    ended = datetime.strptime(started, "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC) + timedelta(minutes=5)
    for file in log_dir.rglob("*"):
        os.utime(file, (ended.timestamp(), ended.timestamp()))


@pytest.mark.parametrize("quorum", ["dynamic", "static"])
def test_metadata_logs_of_kafka(spark: SparkSession, quorum: str) -> None:
    report = audited(spark, QUORUMS / quorum)
    assert report.findings == ()
    assert report.partitions == 1
