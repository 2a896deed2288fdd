"""Stands in for `tailrace serve` where only the way it is started and ended matters.

    stub_server.py --listen HOST:PORT --data DIR [--set key=value]…

`stub=fail` ends before it is ready, `stub=silent` never is, `stub=stubborn` ignores SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import threading
from pathlib import Path

from tailrace.env.real.parent import watch_parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    watch_parent()
    settings = dict(each.split("=", 1) for each in args.set)
    kind = settings.get("stub", "")
    if kind == "fail":
        sys.exit("error: num.partitions=none is not a number")
    print(" ".join(args.set), file=sys.stderr, flush=True)
    args.data.mkdir(exist_ok=True)
    with (args.data / "starts").open("a") as starts:
        starts.write("x")
    signal.signal(signal.SIGTERM, signal.SIG_IGN if kind == "stubborn" else lambda *_: sys.exit(0))
    host, port = args.listen.split(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen()
        if kind != "silent":
            print(f"ready: PLAINTEXT://{args.listen} in 0.01 s", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
