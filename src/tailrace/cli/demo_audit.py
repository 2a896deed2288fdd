"""The end of the demo: an audit of what it wrote, in the process in which Spark counted it, and a page about that."""

from __future__ import annotations

from typing import Any

from tailrace.cli.audit_run import write_report
from tailrace.cli.demo_facts import Audited, Auditing


def audited(spark: Any, directory: str, page: str) -> Audited:
    """Of a log directory whose broker has ended. The page is at `page` when it returns."""
    from tailrace.spark.auditing.audit import audit

    found = audit(directory, session=spark)
    write_report(page, found)
    first = next((f"{each.rule}: {each.file}: {each.words}" for each in found.findings), "")
    return Audited(
        Auditing.DONE,
        findings=len(found.findings),
        first=first,
        partitions=found.partitions,
        segments=found.segments,
        size_bytes=found.bytes,
        seconds=found.seconds,
        report=page,
    )
