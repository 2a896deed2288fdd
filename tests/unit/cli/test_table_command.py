"""`tailrace pipeline table`: its options, what it prints of tables and to whom, and its exit codes.

Spark is not started: what fills a table is a stand-in.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from support.tables.sample_runs import STATUS, plain
from tailrace.cli import table_run
from tailrace.cli.main import main
from tailrace.cli.output import CommandError
from tailrace.cli.pipeline import Position
from tailrace.cli.table_items import first_version
from tailrace.client.errors import BrokerUnreachableError
from tailrace.spark import spark_session
from tailrace.spark.errors import ForeignTableError, MissingTopicError, PipelineError, TableError
from tailrace.spark.tables import table as table_module
from tailrace.spark.tables.job import places
from tailrace.spark.tables.job.dry_run import DryRun
from tailrace.spark.tables.job.settings import TableSettings
from tailrace.spark.tables.job.status import PartitionStatus, TableStatus
from tailrace.spark.tables.store import About, Commit, DataFile, FileTarget, Removed
from tailrace.spark.tables.store_at import store_at

Captured = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]

COMMITS = [
    Commit(4, 1_700_000_300_000, "append", {0: 30, 1: 12}, {"rows": 20}),
    Commit(3, 1_700_000_200_000, "OPTIMIZE", None),
    Commit(2, 1_700_000_100_000, "append", {0: 20, 1: 2}, {"rows": 22}),
    Commit(1, 1_700_000_000_000, "schema", {0: 0, 1: 0}),
]
FILES = [
    DataFile("_day=2026-11-16/a.parquet", {"_day": "2026-11-16"}, 20, 4000),
    DataFile("_day=2026-11-17/b.parquet", {"_day": "2026-11-17"}, 22, 5000),
]


class StubSnapshot:
    about = About("orders", None, None)

    def __init__(self, version: int) -> None:
        self.version = version

    def files(self) -> list[DataFile]:
        return FILES[: 1 if self.version == 2 else 2]

    def target(self) -> FileTarget:
        return FileTarget("/data/orders", pa.schema([]), ("_day",), holds_partition_columns=False)


class StubStore:
    name = "tables/orders"

    def __init__(self, commits: list[Commit]) -> None:
        self._commits = commits

    def open(self) -> StubSnapshot | None:
        return StubSnapshot(self._commits[0].version) if self._commits else None

    def at(self, version: int) -> StubSnapshot:
        return StubSnapshot(version)

    def history(self) -> list[Commit]:
        return self._commits


@pytest.fixture
def no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_run, "settings_there", lambda place, kind, catalog: {})


@pytest.fixture
def run(capsys: Captured, monkeypatch: pytest.MonkeyPatch, no_table: None) -> Run:
    """Exit code, output and errors of the command; `terminal` is how wide it is, None for a pipe."""
    monkeypatch.setattr(places, "store_of", lambda settings: StubStore(COMMITS))
    monkeypatch.setattr(table_module, "status", lambda settings: STATUS)

    def run(*arguments: object, terminal: int | None = None) -> tuple[int, str, str]:
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        code = main(["pipeline", "table", "orders", "--to", "tables/orders", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, plain(captured.out), captured.err

    return run


def items(run: Run, *arguments: object) -> list[dict[str, Any]]:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


# What the options become


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., TableSettings]:
    monkeypatch.chdir(tmp_path)
    seen: list[TableSettings] = []

    def keep(args: object, settings: TableSettings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(table_run, "keep", keep)

    def settings_of(*arguments: str) -> TableSettings:
        assert main(["pipeline", "table", "orders", "--to", "tables/orders", *arguments]) == 0
        return seen[-1]

    return settings_of


@pytest.mark.usefixtures("no_table")
def test_without_options_it_is_the_defaults(
    settings_of: Callable[..., TableSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", "elsewhere:9092")
    settings = settings_of()
    assert (settings.topic, settings.place, settings.format, settings.mode) == (
        "orders",
        "tables/orders",
        "delta",
        "append",
    )
    assert (settings.trigger_ms, settings.retain_ms, settings.target_bytes) == (None, 7 * 86_400_000, 128 << 20)
    assert (settings.key, settings.values.format, settings.upkeep) == ("bytes", "bytes", True)
    assert "elsewhere:9092" in str(settings.source)


@pytest.mark.usefixtures("no_table")
def test_every_option_arrives(settings_of: Callable[..., TableSettings]) -> None:
    settings = settings_of(
        *("--mode", "upsert", "--value", "json", "--key", "string", "--schema", "item STRING", "--buckets", "64"),
        *("--value-column", "order", "--trigger", "10s", "--retain", "1h30m", "--target-file-size", "64m"),
        *("--no-upkeep", "--bootstrap", "here:1", "--option", "codec=zstd", "--option", "maxOffsetsPerTrigger=1000"),
    )
    assert (settings.mode, settings.key, settings.buckets, settings.codec) == ("upsert", "string", 64, "zstd")
    assert (settings.values.format, settings.values.schema, settings.values.column) == ("json", "item STRING", "order")
    assert (settings.trigger_ms, settings.retain_ms, settings.target_bytes) == (10_000, 5_400_000, 64 << 20)
    assert (settings.upkeep, settings.max_offsets) == (False, 1000)
    iceberg = settings_of(
        *(
            "--catalog",
            "type=rest",
            "--catalog",
            "uri=http://h",
            "--partition-by",
            "country,_day",
        ),
        *("--path", "logs", "--starting", "2026-01-31T12:00:00Z", "--value", "avro", "--registry", "schemas"),
    )
    assert (iceberg.format, iceberg.catalog) == ("iceberg", {"type": "rest", "uri": "http://h"})
    assert (iceberg.partition_by, iceberg.values.registry) == (("country", "_day"), "schemas")
    assert "1769860800000" in str(iceberg.source)


def test_what_a_table_was_made_with_need_not_be_said_again(
    settings_of: Callable[..., TableSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("_key", pa.string()), ("o", pa.struct([("item", pa.string())]))])
    settings = {"value": "avro", "valueColumn": "o", "framed": "true", "key": "string"}
    about = About("orders", None, None, settings=settings)
    store = store_at("tables/orders", "parquet", None)
    store.create(about, schema, {0: 0})
    seen: list[TableSettings] = []
    monkeypatch.setattr(table_module, "status", lambda settings: seen.append(settings) or STATUS)
    main(["pipeline", "table", "orders", "--to", "tables/orders", "--format", "parquet", "--status"])
    for found in (seen[0], settings_of("--format", "parquet", "--registry", "schemas")):
        assert (found.mode, found.key) == ("append", "string")
        assert {**found.values.settings(), "key": found.key} == settings
    otherwise = settings_of("--format", "parquet", "--value", "json", "--key", "bytes", "--option", "framed=false")
    assert (otherwise.values.format, otherwise.key, otherwise.values.framed) == ("json", "bytes", False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "5"], "'5' is no record; write its partition and its offset: 2:1500"),
        (["--starting", "1500"], "'1500' is of which partition?"),
        (["--partition-by", "a,,b"], "'a,,b' is no list of columns"),
        (["--trigger", "soon"], "'soon' is no span of time"),
        (["--format", "csv"], "invalid choice: 'csv'"),
        (["--once", "--trigger", "1s"], "not allowed with argument"),
        (["--status", "--history"], "not allowed with argument"),
        (["--path", "logs", "--bootstrap", "here:1"], "not allowed with argument"),
        (["--files", "--version", "x"], "'x' is no version"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "table", "orders", "--to", "tables/orders", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--version", "3"], "--version goes with --files"),
        (["--status", "--trigger", "1s"], "--trigger runs the table"),
        (["--files", "--metrics", "f"], "--metrics goes with a run"),
        (["--mode", "upsert", "--format", "parquet"], "a Parquet table is append only"),
        (["--option", "subscribe=a,b"], "option subscribe does not go with a table"),
    ],
)
def test_what_cannot_be_together(run: Run, arguments: list[str], said: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert said in err


def test_without_spark_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_run, "find_spec", lambda name: None)
    assert run() == (
        1,
        "",
        "error: tables need pyspark and pyarrow, not installed here\nhint: pip install 'tailrace[tables]'\n",
    )


# Looking


def test_history_for_programs(run: Run) -> None:
    found = items(run, "--history")
    assert [item["version"] for item in found] == [4, 3, 2, 1]
    assert [item["offsets"] for item in found] == [{"0": 30, "1": 12}, None, {"0": 20, "1": 2}, {"0": 0, "1": 0}]
    assert found[0]["facts"] == {"rows": 20}


@pytest.mark.parametrize("width", [80, 120])
def test_tables_for_people(run: Run, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = DryRun(
        topic="orders",
        table="tables/orders",
        format="delta",
        mode="append",
        creates=("tables/orders", "tables/orders_dead_letters"),
        columns=pa.schema([("_key", pa.binary()), ("item", pa.string())]),
        new_columns=(),
        partition_by=("_day",),
        start={0: 0},
        end={0: 500},
        batches=1,
        compactions={"tables/orders": 9},
        removed=Removed(2, 1000, 1),
    )
    monkeypatch.setattr(table_module, "dry_run", lambda settings: dry)
    questions = ("--history", "--status", "--files", "--at 0:25", "--at 0:5 --at 1:1", "--dry-run")
    pictures = {question: run(*question.split(), terminal=width)[1] for question in questions}
    for picture in pictures.values():
        assert max(map(len, picture.splitlines())) <= width
    assert "OPTIMIZE, by somebody else" in pictures["--history"]
    assert re.search(r"4 +2023-11-14 22:18:20Z +append +20 +0: 30 +1: 12", pictures["--history"])
    assert "behind        100" in pictures["--status"]
    assert re.search(r"2 +5 +gone", pictures["--status"])
    assert "2 files, 42 rows, 8.79 KiB" in pictures["--files"]
    assert pictures["--at 0:25"].startswith("version 4")
    assert pictures["--at 0:5 --at 1:1"].startswith("version 2")
    assert "500 records in 1 batch" in pictures["--dry-run"]
    assert re.search(r"item +STRING +new", pictures["--dry-run"])


def test_files_are_paths_for_a_pipe(run: Run) -> None:
    assert run("--files")[1].splitlines() == [
        "/data/orders/_day=2026-11-16/a.parquet",
        "/data/orders/_day=2026-11-17/b.parquet",
    ]
    assert len(run("--files", "--version", "2")[1].splitlines()) == 1
    assert items(run, "--files")[1] == {
        "type": "file",
        "path": "/data/orders/_day=2026-11-17/b.parquet",
        "partition": {"_day": "2026-11-17"},
        "rows": 22,
        "bytes": 5000,
    }


def test_status_for_programs(run: Run, tmp_path: Path) -> None:
    table, *partitions = items(run, "--status")
    assert (table["behind"], table["version"], table["dead_letters"]) == (100, 4, 3)
    assert [(each["partition"], each["behind"], each["end"]) for each in partitions] == [
        (0, 100, 130),
        (1, 0, 12),
        (2, None, None),
    ]
    metrics = tmp_path / "orders.prom"
    items(run, "--status", "--metrics", str(metrics))
    assert 'partition="0"' in metrics.read_text()
    assert list(tmp_path.iterdir()) == [metrics]


def test_metrics_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    code, _, err = run("--status", "--metrics", str(tmp_path / "none" / "orders.prom"))
    assert code == 1
    assert "cannot write the metrics to" in err


@pytest.mark.parametrize("question", ["--history", "--files", "--at 0:1"])
def test_a_table_that_is_not_there(run: Run, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "store_of", lambda settings: StubStore([]))
    code, out, err = run(*question.split())
    assert (code, out) == (1, "")
    assert "there is no table at tables/orders yet" in err


@pytest.mark.parametrize("question", ["--history", "--files", "--at 0:1"])
def test_the_table_of_another_topic(run: Run, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StubSnapshot, "about", About("q", None, None))
    code, out, err = run(*question.split())
    assert (code, out) == (1, "")
    assert "has the topic 'q'; asked for is 'orders'" in err


def test_the_status_of_a_topic_that_is_gone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = replace(STATUS, partitions=(PartitionStatus(0, 30, None, None),))
    monkeypatch.setattr(table_module, "status", lambda settings: gone)
    assert [item["behind"] for item in items(run, "--status")] == [None, None]
    picture = run("--status", terminal=80)[1]
    assert re.search(r"behind +– *\n", picture)
    assert re.search(r"0 +30 +gone +–", picture)


def test_a_version_that_is_not_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(store: StubStore, version: int) -> StubSnapshot:
        raise TableError(f"there is no version {version}")

    monkeypatch.setattr(StubStore, "at", at)
    assert run("--files", "--version", "9") == (
        1,
        "",
        "error: there is no version 9\nhint: --history lists the versions that are kept\n",
    )


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_the_format_of_a_table_that_is_there_need_not_be_said(
    settings_of: Callable[..., TableSettings], kind: str
) -> None:
    about = About("orders", None, None, settings={"value": "string", "key": "bytes"})
    schema = pa.schema([("_key", pa.binary()), ("value", pa.string())])
    store_at("tables/orders", kind, None).create(about, schema, {0: 0})
    settings = settings_of()
    assert (settings.format, settings.values.format) == (kind, "string")


def test_what_refuses_a_run_is_said_before_spark_is_started(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(settings: TableSettings) -> TableStatus:
        raise ForeignTableError("it is of another topic")

    monkeypatch.setattr(table_module, "status", refused)
    monkeypatch.setattr(spark_session, "session", lambda *_, **__: pytest.fail("Spark was started"))
    code, _, err = run()
    assert (code, err.splitlines()[0]) == (1, "error: it is of another topic")
    monkeypatch.setattr(table_module, "status", lambda settings: STATUS)
    code, _, err = run("--metrics", "no/such/folder")
    assert (code, err.splitlines()[0]) == (
        1,
        "error: cannot write the metrics to no/such/folder: No such file or directory",
    )


@pytest.mark.parametrize(
    ("error", "cause", "hint"),
    [
        (MissingTopicError("topic orders is not at here:1"), None, "or create it: tailrace topic create orders"),
        (PipelineError("asking at here:1"), BrokerUnreachableError("no broker"), "start one with `tailrace serve`"),
    ],
)
def test_topics_and_brokers_that_are_not_there(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: Exception | None, hint: str
) -> None:
    def status(settings: TableSettings) -> TableStatus:
        raise error from cause

    monkeypatch.setattr(table_module, "status", status)
    code, out, err = run("--status")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {error}\nhint: ")
    assert hint in err


def test_a_foreign_table_is_said_to_be_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def status(settings: TableSettings) -> TableStatus:
        raise ForeignTableError("tables/orders is of topic payments, not of orders")

    monkeypatch.setattr(table_module, "status", status)
    code, out, err = run("--status")
    assert (code, out) == (1, "")
    assert err.startswith(
        "error: tables/orders is of topic payments, not of orders\nhint: give another place for a new table"
    )


# Which version has a record


def test_the_first_version_that_has_a_record() -> None:
    assert first_version(COMMITS, [Position(0, 25)])["version"] == 4
    assert first_version(COMMITS, [Position(0, 19)])["version"] == 2
    assert first_version(COMMITS, [Position(0, 19), Position(1, 2)])["version"] == 4
    assert first_version(COMMITS[:3], [Position(0, 3)])["is_oldest_kept"] is True
    with pytest.raises(CommandError, match=r"offset 30 .*: it has what is before offset 30"):
        first_version(COMMITS, [Position(0, 30)])
    with pytest.raises(CommandError, match="nothing of partition 7"):
        first_version(COMMITS, [Position(7, 0)])


def test_versions_that_were_taken_back_do_not_count() -> None:
    history = [
        Commit(5, 0, "append", {0: 30}),
        Commit(4, 0, "RESTORE", {0: 10}),
        Commit(3, 0, "append", {0: 30}),
        Commit(2, 0, "append", {0: 10}),
    ]
    assert first_version(history, [Position(0, 20)])["version"] == 5
    assert first_version(history, [Position(0, 5)])["version"] == 2
