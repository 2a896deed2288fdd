"""Writes docs/configuration.md from the tables of settings.

python tools/make_configuration_page.py            write it
python tools/make_configuration_page.py --check    exit 1 when it is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tailrace.config.broker import BrokerConfig
from tailrace.config.cleaner import CleanerConfig
from tailrace.config.groups import GroupConfig
from tailrace.config.listeners import ListenerConfig
from tailrace.config.log import LogConfig
from tailrace.config.network import NetworkConfig
from tailrace.config.overrides import ClientMetricsConfig, GroupOverrides
from tailrace.config.quorum import QuorumConfig
from tailrace.config.replication import ReplicationConfig
from tailrace.config.reporting import ReportingConfig
from tailrace.config.security import SecurityConfig
from tailrace.config.share_groups import ShareGroupConfig
from tailrace.config.table import MAX_INT, MAX_LONG, MIN_INT, MIN_LONG, Effect, Key, Mode, Whole, keys_of
from tailrace.config.tiered import TieredConfig
from tailrace.config.topic_defaults import TOPIC_DEFAULTS
from tailrace.config.topics import TopicCreationConfig
from tailrace.config.transactions import TransactionConfig

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"

HEAD = """\
# Settings

<!-- Made by tools/make_configuration_page.py from the tables in src/tailrace/config. Change those, not this. -->

The keys, defaults and ranges are those of Apache Kafka 4.3.1, and its properties files work as they are. Every key of
that release is known; a key that is not is warned about when the broker starts. A value that a key cannot have stops
the start, with the key named. One default is ours: `queued.max.request.bytes` is bounded. Two keys are ours:
`metrics.listener` and `controller.quorum.fast.election.enable`.

The last column says what a setting does here when it is not simply used:

- *no effect*: nothing in this broker corresponds to it (pools of threads, Java's metrics). It is checked, kept and
  told to those who ask.
- *later*: it is of a part that is not built yet. It is checked, kept and told to those who ask.
- *refused*: it asks for something that is not there and that nobody should believe to be there: encryption,
  authentication, authorisation, tiered storage, Java classes. Any value but the default stops the start. So does a
  listener whose protocol, by `listener.security.protocol.map`, is not PLAINTEXT.

A setting of a broker may be *read-only*; it may be changed while the broker runs, for all brokers (*cluster-wide*) or
for one, or only for each broker by itself (*per-broker*). What was set at run time is stronger than the properties
file, what was set for one broker is stronger than what was set for all. Pools of threads grow or shrink by a factor of
two at a time. `listeners`, `listener.security.protocol.map` and the settings of security are read-only here, though
Kafka can change some of them at run time.

```sh
tailrace topic create orders --config retention.ms=604800000
tailrace config describe --topic orders --all
tailrace config set --topic orders retention.ms=86400000
tailrace config set --cluster log.cleaner.threads=2
```
"""

SECTIONS: tuple[tuple[str, Mapping[str, Key]], ...] = (
    ("Nodes, controller and metadata", keys_of(QuorumConfig)),
    ("Listeners", keys_of(ListenerConfig)),
    ("Connections and requests", keys_of(NetworkConfig)),
    ("Topics", keys_of(TopicCreationConfig)),
    ("Data directories and logs", keys_of(BrokerConfig)),
    ("The log cleaner", keys_of(CleanerConfig)),
    ("Replication and quotas", keys_of(ReplicationConfig)),
    ("Consumer groups", keys_of(GroupConfig)),
    ("Transactions and producers", keys_of(TransactionConfig)),
    ("Metrics", keys_of(ReportingConfig)),
    ("Share groups and streams groups", keys_of(ShareGroupConfig)),
    ("Tiered storage", keys_of(TieredConfig)),
    ("Security", keys_of(SecurityConfig)),
)


def page() -> str:
    parts = [HEAD, topics(), defaults_of_topics()]
    parts += [f"## {title}\n\n{broker_table(rows.values())}" for title, rows in SECTIONS]
    parts.append("## Overrides of single groups\n\n" + plain_table(keys_of(GroupOverrides).values()))
    parts.append("## Subscriptions to clients' metrics\n\n" + plain_table(keys_of(ClientMetricsConfig).values()))
    return "\n".join(parts)


def topics() -> str:
    brokers = {default.topic_key: name for name, default in reversed(TOPIC_DEFAULTS.items())}
    lines = ["| key | type | default | default set by | what it does |", "|---|---|---|---|---|"]
    for name, row in sorted(keys_of(LogConfig).items()):
        source = f"`{brokers[name]}`" if name in brokers else ""
        lines.append(f"| `{name}` | {kind(row)} | {default(row)} | {source} | {row.doc}{effect(row)} |")
    text = (
        "## Of a topic\n\nA topic that says nothing has what its broker says, under the name in the fourth column.\n\n"
    )
    return text + "\n".join(lines) + "\n"


def defaults_of_topics() -> str:
    lines = ["| key | type | default | changes | default of |", "|---|---|---|---|---|"]
    for name, each in sorted(TOPIC_DEFAULTS.items()):
        row = each.key
        lines.append(f"| `{name}` | {kind(row)} | {default(row)} | {row.mode.value} | `{each.topic_key}` |")
    text = "## Defaults of topics\n\nOf keys that mean the same in several units, the finest that is given counts.\n\n"
    return text + "\n".join(lines) + "\n"


def broker_table(rows: Iterable[Key]) -> str:
    lines = ["| key | type | default | changes | what it does |", "|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row.name):
        mode = "" if row.mode is Mode.READ_ONLY else row.mode.value
        lines.append(f"| `{row.name}` | {kind(row)} | {default(row)} | {mode} | {row.doc}{effect(row)} |")
    return "\n".join(lines) + "\n"


def plain_table(rows: Iterable[Key]) -> str:
    lines = ["| key | type | default | what it does |", "|---|---|---|---|"]
    lines += [f"| `{row.name}` | {kind(row)} | {default(row)} | {row.doc}{effect(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def kind(row: Key) -> str:
    name = row.kind.name.lower()
    return f"{name}, {span(row)}" if span(row) else name


def span(row: Key) -> str:
    """A range without the bounds that the type itself has."""
    parse = row.parse
    if not isinstance(parse, Whole):
        return row.span
    low = "" if parse.low in (MIN_INT, MIN_LONG) else f"from {parse.low}"
    high = "" if parse.high in (MAX_INT, MAX_LONG, 2**15 - 1) else f"to {parse.high}"
    extra = "" if parse.extra is None else f"or {parse.extra}"
    return " ".join(part for part in (low, high, extra) if part)


def default(row: Key) -> str:
    text = row.default_text
    if text is None:
        return ""
    if text == "/tmp/kafka-logs":
        return "`kafka-logs` in the directory for temporary files"
    if text in (str(MAX_LONG), "1.7976931348623157E308"):
        return "unbounded"
    return f"`{text}`" if text else "empty"


def effect(row: Key) -> str:
    notes = {Effect.NONE: " *(no effect)*", Effect.LATER: " *(later)*", Effect.REFUSED: " *(refused)*"}
    internal = " *(internal)*" if row.is_internal else ""
    return notes.get(row.effect, "") + internal


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
