"""`tailrace pipeline stats`: counts a topic on Spark, and prints what it found."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError, prepare_stdout
from tailrace.cli.sizes import counted
from tailrace.cli.spark_work import (
    brokers_of,
    check_installed,
    check_outside,
    check_path,
    check_writable,
    places_in,
    started,
    told_errors,
)
from tailrace.cli.step_bar import StepBar

if TYPE_CHECKING:
    from tailrace.spark.statistics.stats import StatsProgress
    from tailrace.spark.statistics.topic_stats import TopicStats

DOING: Final = {"counting": "counting keys", "sampling": "packing a sample with every codec"}


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    where = place_of(args)
    if where["path"] is not None:
        check_path(where["path"])
    if args.report is not None:
        check_writable(args.report)
        check_outside(args.report, places_in(where["path"] or ""), "counted")
    check_installed("pipeline stats")
    with told_errors(where["topic"], is_path=where["path"] is not None):
        found = counted_topic(args, where)
    show(found, args.report, as_json=args.json)
    if args.report is not None:
        write_report(args.report, found)  # last: figures are told even where this fails
    return 0


def place_of(args: argparse.Namespace) -> dict[str, str | None]:
    """Arguments of `stats`."""
    if "/" not in args.target:
        return {"topic": args.target, "brokers": brokers_of(args), "path": args.path}
    if args.path is not None or args.bootstrap is not None:
        other = "--path" if args.path is not None else "--bootstrap"
        raise CommandError(f"{args.target} is a path already, and {other} says another place", "leave one of them out")
    return {"topic": None, "brokers": None, "path": args.target}


def counted_topic(args: argparse.Namespace, where: dict[str, str | None]) -> TopicStats:
    from tailrace.spark.statistics.stats import stats

    given: dict[str, Any] = {"top": args.top, "sample": args.sample}
    with StepBar(is_shown=not args.json) as bar:

        def told(progress: StatsProgress) -> None:
            doing = DOING.get(progress.doing, progress.doing)
            bar.tell(doing, progress.tasks_done, progress.tasks, counted(progress.tasks, "task"))

        spark = started(f"tailrace stats {args.target}", args)
        return stats(
            where["topic"],
            brokers=where["brokers"],
            path=where["path"],
            session=spark,
            told=told,
            options=dict(args.option),
            **{name: value for name, value in given.items() if value is not None},
        )


def write_report(path: str, found: TopicStats) -> None:
    from tailrace.spark.report.html import write
    from tailrace.spark.statistics.report import stats_page

    write(stats_page(found), path)


def show(found: TopicStats, page: str | None, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"type": "stats", **found.to_dict(), "report": page}))
    elif not sys.stdout.isatty():
        print_items(items(found, page), as_json=False)
    else:
        from tailrace.cli.stats_text import show_stats

        show_stats(found, page)


# For pipes


def items(found: TopicStats, page: str | None) -> list[Item]:
    """A line for the topic, then one for each thing that there are several of."""
    compaction = found.compaction
    topic: Item = {
        "type": "topic",
        "topic": found.topic,
        "records": found.records,
        "batches": found.batches,
        "stored_bytes": found.stored_bytes,
        "plain_bytes": found.plain_bytes,
        "payload_bytes": found.payload_bytes,
        "first_ms": found.first_ms,
        "last_ms": found.last_ms,
        "keys": found.keys.distinct,
        "gini": round(found.keys.gini, 4),
        "null_keys": found.keys.null_records,
        "null_values": found.null_values,
        "tombstones": found.tombstones,
        "aborted": found.aborted_records,
        "producers": found.producers.distinct,
        "records_per_s": round(found.rates.mean_records_per_s, 3),
        "busiest_records_per_s": round(found.rates.busiest_records_per_s, 3),
        "compaction_gains": compaction.whole.gained_bytes,
        "compaction_keeps": compaction.whole.records,
        "seconds": round(found.seconds, 3),
        "report": page,
    }
    return [
        topic,
        *({"type": "partition", **_named(each)} for each in found.partitions),
        *(_size_item(name, found) for name in ("key_sizes", "value_sizes", "batch_sizes", "batch_records")),
        *(
            {"type": "key", "key": each.text, "records": each.records, "bytes": each.payload_bytes}
            for each in found.keys.hot
        ),
        *({"type": "header", **_named(each)} for each in found.headers.names),
        *({"type": "producer", **_named(each), "epochs": list(each.epochs or ())} for each in found.producers.listed),
        *({"type": "codec", **_named(each)} for each in found.codecs),
        *({"type": "trial", **_named(each)} for each in found.codec_trials.trials),
        *({"type": "retention", **_named(each)} for each in found.retention.times),
        *({"type": "retention", **_named(each)} for each in found.retention.sizes),
    ]


def _named(thing: object) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in vars(thing).items()}


def _size_item(name: str, found: TopicStats) -> Item:
    sizes = getattr(found, name)
    bounds = {"least": sizes.least, "mean": round(sizes.mean, 2), "greatest": sizes.greatest}
    return {"type": "sizes", "of": name, "count": sizes.count, **bounds, **sizes.quantiles}
