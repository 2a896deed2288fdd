"""What a scrape of /metrics costs a broker: the longest and the usual wait of a client beside it.

    python benchmarks/scrape.py [--partitions 5000] [--seconds 10]

A client asks for ApiVersions again and again on one connection; another process scrapes meanwhile. Shown are the
client's waits without scrapes and with them. A shared machine gives long waits of its own: the first line shows them.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peer_loads import API_VERSIONS, settle
from peer_sides import TailraceSide, free_ports, receive_frame, wait_until

SCRAPER = """
import json, sys, time, urllib.request
port, seconds = int(sys.argv[1]), float(sys.argv[2])
took, size, end = [], 0, time.monotonic() + seconds
while time.monotonic() < end:
    start = time.monotonic()
    size = len(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read())
    took.append(time.monotonic() - start)
    time.sleep(0.2)
print(json.dumps({"scrapes": len(took), "longest_s": max(took), "bytes": size}))
"""


def waits(port: int, seconds: float) -> list[float]:
    """Milliseconds, shortest first."""
    found = []
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.monotonic() + seconds
        while (start := time.monotonic()) < end:
            connection.sendall(API_VERSIONS)
            receive_frame(connection)
            found.append((time.monotonic() - start) * 1000)
    return sorted(found)


def shown(name: str, found: list[float]) -> str:
    share = [found[int(len(found) * part)] for part in (0.5, 0.99, 0.999)]
    values = " | ".join(f"{value:.2f}" for value in (*share, found[-1]))
    return f"| {name} | {len(found):,} | {values} |"


def main() -> int:
    parser = argparse.ArgumentParser(description="What a scrape of /metrics costs a broker.")
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    metrics_port = free_ports()
    with (
        tempfile.TemporaryDirectory() as folder,
        TailraceSide(Path(folder) / "broker", {"metrics.listener": f"127.0.0.1:{metrics_port}"}) as side,
    ):
        side.start()
        side.create("many", args.partitions)
        waits(side.port, 1)
        settle(side, 3, 120)
        print("| | requests | p50 ms | p99 ms | p99.9 ms | longest ms |\n|---|---|---|---|---|---|")
        print(shown("without scrapes", waits(side.port, args.seconds)))
        command = [sys.executable, "-c", SCRAPER, str(metrics_port), str(args.seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as scraper:
            print(shown("while scraped", waits(side.port, args.seconds)))
            wait_until(lambda: scraper.poll() is not None, "the scraper", 90)
            assert scraper.stdout is not None
            seen = json.loads(scraper.stdout.read())
    lines = f"{args.partitions:,} partitions: {seen['scrapes']} scrapes of {seen['bytes'] / 1e6:.1f} MB,"
    print(f"\n{lines} the longest {seen['longest_s']:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
