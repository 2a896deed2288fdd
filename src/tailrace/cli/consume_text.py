"""Records on a terminal: where they are, when they were written, key and value; below them how fast they come."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tailrace.cli.dump_text import shown_time
from tailrace.cli.live import LiveLine
from tailrace.cli.output import printable
from tailrace.cli.terminal import Terminal
from tailrace.cli.throughput import Throughput, shown_amount, shown_rate
from tailrace.model.ids import TopicPartition
from tailrace.record.reader import Record


class RecordLines:
    def __init__(self, throughput: Throughput) -> None:
        self._terminal = Terminal(soft_wrap=True)
        self._throughput = throughput
        self._live = LiveLine(self._terminal)
        self._place_width = 0

    def write(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        if records:
            self._terminal.print(Text("\n").join(self._line(partition, record) for record in records), soft_wrap=True)

    def _line(self, partition: TopicPartition, record: Record) -> Text:
        place = f"{partition.partition}:{record.offset}"
        self._place_width = max(self._place_width, len(place))
        line = Text.assemble(
            (f"{place:>{self._place_width}}", "cyan"), (f"  {shown_time(record.timestamp)}  ", "bright_black")
        )
        if record.key is not None:
            line.append(f"{shown(record.key)} ", style="yellow")
        if record.value is None:
            line.append("null", style="dim italic")
        else:
            line.append(shown(record.value))
        for name, value in record.headers:
            content = "null" if value is None else shown(value)
            line.append(f"  {printable(name)}={content}", style="magenta")
        return line

    def tick(self, lag: int) -> None:
        self._live.show(self._throughput, more=f" · {lag:,} to go" if lag else "")

    def __enter__(self) -> RecordLines:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__()
        amount = shown_amount(self._throughput.records, self._throughput.bytes)
        rate = shown_rate(*self._throughput.overall())
        self._terminal.print(Text(f"{amount} in {self._throughput.seconds:.1f} s, {rate}", style="dim"))


def shown(data: bytes) -> str:
    """Text where it is text, else Python's escapes."""
    try:
        return printable(data.decode())
    except UnicodeDecodeError:
        return repr(data)[2:-1]
