"""Runs of batches as the kernels see them, and as `shallow` does."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable
from types import SimpleNamespace

from support.records.kernel_forms import FORMS
from support.records.raw_records import EDGES, INT64_MAX, batch, record
from tailrace.model.offsets import GREATEST_OFFSET
from tailrace.record import kernels
from tailrace.record.shallow import ShallowBatch

ROOM = 8

Rows = list[tuple[int, ...]]


def walked_run(
    form: SimpleNamespace,
    data: bytes,
    *,
    start: int = 0,
    end: int | None = None,
    next_offset: int = 0,
    greatest_offset: int = 2**31 - 1,
    latest_epoch: int = 0,
) -> Rows:
    """The rows that a form of the kernel fills, with room for ROOM of them."""
    rows = array("q", bytes(8 * kernels.BATCH_ROW * ROOM))
    stop = len(data) if end is None else end
    count = form.batch_run.walk_run(data, start, stop, next_offset, greatest_offset, latest_epoch, rows)
    return [tuple(rows[kernels.BATCH_ROW * n : kernels.BATCH_ROW * (n + 1)]) for n in range(count)]


def rows_of(batches: Iterable[ShallowBatch]) -> Rows:
    return [
        (
            each.position,
            each.end,
            each.crc,
            each.last_offset,
            each.max_timestamp,
            each.producer_id,
            each.producer_epoch,
            each.attributes,
        )
        for each in batches
    ]


def columns_of_run(form: SimpleNamespace, data: bytes, rows: Rows) -> list[tuple[int, ...]]:
    """The columns that a form of the kernel fills of these rows."""
    columns = array("q", bytes(8 * len(kernels.HEADER_COLUMNS) * len(rows)))
    form.batch_run.columns_run(data, array("q", [number for row in rows for number in row]), len(rows), columns)
    return [tuple(columns[at : at + len(rows)]) for at in range(0, len(columns), len(rows) or 1)]


def some_run(order: random.Random) -> bytes:
    """Up to ROOM + 2 batches, most of which follow each other, with now and then a byte that is wrong."""
    data, offset = bytearray(), 0
    for _ in range(order.randrange(ROOM + 3)):
        offset += order.choice((0, 0, 0, 0, 1, 9, 2**31, -1))
        delta = order.choice((0, 1, 1, 5, 5, 2**31 - 1, -1)) if order.random() < 0.2 else 1
        made, _ = batch(
            record(0, value=bytes(order.randrange(200))),
            1,
            base_offset=offset if order.random() < 0.98 else order.choice(EDGES),
            last_offset_delta=delta,
            leader_epoch=order.choice((-1, 0, 1)) if order.random() < 0.1 else 0,
            max_timestamp=order.choice((*EDGES, *range(1000, 1010))),
            producer_id=order.choice((-1, 0, INT64_MAX)),
            producer_epoch=order.choice((-1, 0, 2**15 - 1)),
        )
        data += made
        offset = max(0, offset + delta + 1)
    if data and order.random() < 0.3:
        data[order.randrange(len(data))] = order.randrange(256)
    return bytes(data[: order.randrange(len(data) + 1)] if order.random() < 0.2 else data)


def run_disagreements(seed: int, examples: int) -> tuple[list[bytes], set[int]]:
    """Runs of which compiled and interpreted kernels say different things, and the lengths of all runs."""
    order = random.Random(seed)
    both = FORMS
    compiled, interpreted = both["compiled"], both["interpreted"]
    differing: list[bytes] = []
    lengths: set[int] = set()
    for _ in range(examples):
        data = some_run(order)
        greatest_offset = order.choice((100, 2**31 - 1, 2**40, GREATEST_OFFSET))
        found = [walked_run(form, data, greatest_offset=greatest_offset) for form in (compiled, interpreted)]
        lengths.add(len(found[0]))
        rows = array("q", [number for row in found[0] for number in row])
        numbers = (
            order.choice((0, 4096, 2**30)),  # position
            0,  # base offset
            order.choice((0, 100, 400)),  # interval
            order.choice((0, 101, 5000)),  # bytes since the last entry
            *(order.choice((-1, 1005)), 0),  # the largest timestamp and its offset
            -1,  # the last one that is indexed
        )
        entries = []
        for form in (compiled, interpreted):
            room = bytearray(8 * (seed % 3 + 6)), bytearray(12 * (seed % 4 + 5))
            entries.append((form.batch_run.index_run(rows, len(found[0]), *numbers, *room), *room))
        intact = [form.batch_run.check_run(data, rows, len(found[0])) for form in (compiled, interpreted)]
        columns = [columns_of_run(form, data, found[0]) for form in (compiled, interpreted)]
        if found[0] != found[1] or entries[0] != entries[1] or intact[0] != intact[1] or columns[0] != columns[1]:
            differing.append(data)
    return differing, lengths
