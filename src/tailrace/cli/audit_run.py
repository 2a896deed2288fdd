"""`tailrace pipeline audit`: runs an audit, prints what it found, and says so by its exit code.

What cannot be done at all has an exit code of its own: 1 is for findings, as those who watch an audit rely on.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError, prepare_stdout, report
from tailrace.cli.sizes import counted, shown_size
from tailrace.cli.spark_work import check_installed, check_outside, check_writable, started, told_errors
from tailrace.cli.step_bar import StepBar
from tailrace.cli.throughput import Throughput
from tailrace.model.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.spark.auditing.audit_report import AuditReport
    from tailrace.spark.auditing.progress import AuditProgress

FOUND: Final = 1
NOT_DONE: Final = 2

DOING: Final = {
    "list": "looking for logs",
    "read": "reading",
    "confirm": "looking again",
    "superseded": "comparing keys",
    "replicas": "comparing replicas",
}


def run(args: argparse.Namespace) -> int:
    prepare_stdout()
    try:
        if args.list_rules:
            return list_rules(as_json=args.json)
        check_usage(args)
        check_installed("an audit")
        with told_errors(None, is_path=True):
            found = audited(args)
        show(found, args.report, as_json=args.json)
        if args.report is not None:
            write_report(args.report, found)  # last: what was found is told even where this fails
    except TailraceError as error:
        report(error)
        return NOT_DONE
    return 0 if found.is_clean else FOUND


def check_usage(args: argparse.Namespace) -> None:
    """What would be known only after Spark has started."""
    if not args.paths:
        raise CommandError("no directory is given", "tailrace pipeline audit DIR, or --list-rules for what is checked")
    for path in args.paths:
        if not os.path.isdir(path):
            reason = "is not a directory" if os.path.exists(path) else "does not exist"
            raise CommandError(f"{path or repr(path)} {reason}", "give a log directory, or the folder of a partition")
    unknown = unknown_rules(args.rules or ())
    if unknown:
        raise CommandError(f"there is no rule {unknown[0]!r}", "`tailrace pipeline audit --list-rules` has them all")
    if args.report is not None:
        check_writable(args.report)
        check_outside(args.report, args.paths, "audited")


def unknown_rules(names: tuple[str, ...]) -> list[str]:
    from tailrace.spark.auditing.rules import RULES

    return [name for name in names if name not in RULES]


def audited(args: argparse.Namespace) -> AuditReport:
    from tailrace.spark.auditing.audit import audit
    from tailrace.spark.errors import MissingTopicError

    given = {} if args.max_transaction is None else {"max_transaction_ms": args.max_transaction}
    with StepBar(is_shown=not args.json) as bar:
        spark = started("tailrace audit", args)
        try:
            return audit(
                *args.paths,
                session=spark,
                state=args.state,
                topics=args.topic,
                rules=args.rules,
                superseded=not args.no_superseded,
                replicas=not args.no_replicas,
                notes=args.notes,
                told=Told(bar),
                **given,
            )
        except MissingTopicError as error:
            hint = "--topic takes names, with * and ? for any; `tailrace log dirs DIR` tells what is there"
            raise CommandError(str(error), hint) from error


class Told:
    """From what an audit tells to a bar with its pace."""

    def __init__(self, bar: StepBar) -> None:
        self._bar = bar
        self._step = ""
        self._throughput = Throughput()

    def __call__(self, progress: AuditProgress) -> None:
        if progress.step != self._step:
            self._step, self._throughput = progress.step, Throughput()
        parts = []
        if progress.step == "read":
            self._throughput.add(0, max(progress.done - self._throughput.bytes, 0))
            _, bytes_per_s = self._throughput.now()
            parts = [
                f"{shown_size(progress.done)} of {shown_size(progress.whole)}",
                f"{shown_size(round(bytes_per_s))}/s",
            ]
        if progress.findings:
            parts.append(counted(progress.findings, "finding"))
        self._bar.tell(DOING.get(progress.step, progress.step), progress.done, progress.whole, " · ".join(parts))


def write_report(path: str, found: AuditReport) -> None:
    from tailrace.spark.auditing.report import audit_page
    from tailrace.spark.report.html import write

    write(audit_page(found), path)


# What is printed


def show(found: AuditReport, page: str | None, *, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        print_items([*finding_items(found), summary_item(found, page)], as_json=as_json)
        return
    from tailrace.cli.audit_text import show_audit

    show_audit(found, page)


def finding_items(found: AuditReport) -> list[Item]:
    return [{"type": "finding", **each.to_dict()} for each in found.findings]


def summary_item(found: AuditReport, page: str | None) -> Item:
    sums = found.to_dict()
    del sums["findings"]
    return {"type": "summary", **sums, "report": page}


def list_rules(*, as_json: bool) -> int:
    from tailrace.spark.auditing.rules import RULES

    if as_json or not sys.stdout.isatty():
        print_items([{"type": "rule", **rule._asdict()} for rule in RULES.values()], as_json=as_json)
        return 0
    from tailrace.cli.audit_text import show_rules

    show_rules(list(RULES.values()))
    return 0
