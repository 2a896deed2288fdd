"""Writes docs/images/table.svg: the README's example with a table, and what it prints.

    python tools/make_table_picture.py

The example runs as it stands, on a broker of its own with the first orders of the demo. It starts Spark, so it is not
made anew by anything else: run it when the example or what it prints has changed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from html import escape
from pathlib import Path

from tailrace.cli.demo_orders import Orders
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.testing.broker import Broker

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "table.svg"
ADDRESS = "localhost:9092"
TOPIC = "orders"
PARTITIONS = 4
ORDERS = 30_000

CHARACTER_PX = 7.83
LINE_PX = 19
MARGIN_PX = 22
STYLE = (
    "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#e6edf3}"
    ".code{fill:#79c0ff}.dim{fill:#8b949e}rect{fill:#0d1117}"
)


def table_example() -> str:
    """The only example that reads a table."""
    found = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (example,) = [each for each in found if "read_table" in each]
    return str(example)


def fill(bootstrap: str, count: int = ORDERS) -> None:
    """The demo's first orders."""
    orders = Orders()
    with Cluster(bootstrap) as cluster, Producer(cluster, may_create_topics=False) as producer:
        for _ in range(count):
            order = orders.next()
            producer.send(TOPIC, order.value, order.key)


def printed(example: str) -> list[str]:
    """What it prints, in a directory of its own."""
    with Broker() as broker, tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        fill(broker.bootstrap_servers)
        before = Path.cwd()
        os.chdir(folder)
        try:
            exec(compile(example.replace(ADDRESS, broker.bootstrap_servers), "README.md", "exec"), {})
        finally:
            os.chdir(before)
    return out.getvalue().rstrip().splitlines()


def picture(example: str, output: list[str]) -> str:
    lines = [("code", line) for line in example.rstrip().splitlines()]
    lines += [("dim", ""), *(("", line) for line in output)]
    wide = max(len(line) for _, line in lines) * CHARACTER_PX + 2 * MARGIN_PX
    high = len(lines) * LINE_PX + 2 * MARGIN_PX - 6
    drawn = [
        f'<text xml:space="preserve" x="{MARGIN_PX}" y="{MARGIN_PX + 11 + at * LINE_PX}" class="{kind}">'
        f"{escape(line, quote=False)}</text>"
        for at, (kind, line) in enumerate(lines)
        if line
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}" role="img" '
        f'aria-label="A summary by SQL of a table that a topic became">\n<style>{STYLE}</style>\n'
        f'<rect width="{wide:.0f}" height="{high}" rx="8"/>'
    )
    return "\n".join([head, *drawn, "</svg>"]) + "\n"


def main() -> None:
    example = table_example()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(example, printed(example)))
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
