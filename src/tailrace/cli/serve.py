"""`tailrace serve`: run a node. What it needs is loaded only when it is run."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from typing import Final

from tailrace.cli.command import Subparsers

DESCRIPTION: Final = """\
Run a node that Apache Kafka's clients and tools can use: a broker with its controller or, in a cluster, a broker, a
controller or both, as process.roles says.

Kafka's settings and properties files work as they are. Without --config it is one node alone, with the values of
Kafka's single-node sample, and listens on 127.0.0.1:9092 only. Empty directories of a node alone are formatted at its
first start. Those of a node in a cluster must be formatted with `tailrace storage format`.
"""

EXAMPLES: Final = """\
examples:
  tailrace serve                                        a broker on 127.0.0.1:9092, data where Kafka's sample has it
  tailrace serve --data ./data --listen 127.0.0.1:0     its own data, any free port (see the ready line)
  tailrace serve --config server.properties             as Kafka would start
  tailrace serve --config controller-1.properties       a member of a cluster: see docs/operations/clusters.md
  tailrace serve --set num.partitions=6 --set log.retention.hours=24
  tailrace serve --set metrics.listener=127.0.0.1:9404  with Prometheus metrics, /healthz and /readyz

When clients can connect it prints one line to standard output, such as
  ready: PLAINTEXT://127.0.0.1:9092 in 0.31 s
Logs go to standard error. SIGTERM or Ctrl-C shuts it down cleanly; another one, a second
or more later, ends it at once.
"""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="run a broker, a controller or both",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="properties file, as for Kafka")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting that replaces the file's; may be repeated",
    )
    parser.add_argument("--data", metavar="DIR", help="data directory (log.dirs)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="address for clients; port 0 takes any free port")
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="minimum severity to log (default: info)",
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="format of log lines (default: text)"
    )
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    from tailrace.broker.main import BrokerProcess, Ready
    from tailrace.cli.log_lines import write_log_lines
    from tailrace.cli.main import silence_stdout
    from tailrace.cli.serve_settings import server_config
    from tailrace.env.real.parent import watch_parent

    watch_parent()
    write_log_lines(args.log_level, args.log_format)
    config = server_config(args.config, given_settings(args.set), args.data, args.listen)

    def ready(found: Ready) -> None:
        try:
            print(ready_line(found), flush=True)
        except OSError as error:  # no reason to stop serving
            silence_stdout()
            logging.getLogger(__name__).warning("the ready line cannot be written: %s", error)

    return BrokerProcess(config, ready).run()


def ready_line(found: object) -> str:
    from tailrace.broker.main import Ready

    assert isinstance(found, Ready)
    where = ",".join(map(str, found.listeners))
    metrics = f", metrics on port {found.metrics_port}" if found.metrics_port is not None else ""
    return f"ready: {where} in {found.seconds:.2f} s{metrics}"


def given_settings(texts: list[str]) -> Mapping[str, str]:
    from tailrace.cli.output import CommandError

    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"--set {text}: a setting is KEY=VALUE", "for example --set num.partitions=6")
        found[key.strip()] = value.strip()
    return found
