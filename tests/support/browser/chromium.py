"""Debian's Chromium without a window, told what to do through a pipe, by the standard library alone.

Its DevTools protocol is JSON with a zero byte behind each message: on descriptor 3 what it is asked, on 4 what it
answers and tells. So a test can point at things, press keys, look at pixels, and see every request that a page makes.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *(
        "--disable-dev-shm-usage",
        "--force-color-profile=srgb",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--remote-debugging-pipe",
    ),
)
PATIENCE_S = 60.0


def program() -> str | None:
    """Where it is; None where it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _pipe() -> tuple[int, int]:
    """Neither end is descriptor 3 or 4: those are the browser's."""
    ends = os.pipe()
    high = fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 10), fcntl.fcntl(ends[1], fcntl.F_DUPFD_CLOEXEC, 10)
    for end in ends:
        os.close(end)
    return high


class HeadlessBrowser:
    """One page at a time."""

    def __init__(self, profile: Path) -> None:
        asked, self._ask = _pipe()
        self._hear, told = _pipe()
        self._process = subprocess.Popen(
            [
                *("bash", "-c", f'exec "$@" 3<&{asked} 4>&{told}', "bash"),
                *(program() or "chromium", *SWITCHES, f"--user-data-dir={profile}"),
            ],
            pass_fds=(asked, told),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(asked)
        os.close(told)
        self._heard = b""
        self._calls = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._ask)
        os.close(self._hear)
        try:  # it ends by itself when nobody can ask any more
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()

    def open(self, page: Path, *, width: int, height: int, scheme: str = "light") -> None:
        """Loads a file. Requests, errors and what is written to the console are in `events` from then on."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        for domain in ("Page", "Network", "Log", "Runtime", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=page.as_uri())
        while not self.seen("Page.loadEventFired"):
            self._receive()

    def seen(self, method: str) -> list[dict[str, Any]]:
        """What was told by this name, each with its parameters."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def shot(self, path: Path) -> Path:
        """A PNG of what would be seen in the window."""
        path.write_bytes(
            base64.b64decode(self.call("Page.captureScreenshot", format="png", optimizeForSpeed=True)["data"])
        )
        return path

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if self._session is not None and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._ask, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._calls:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        found: dict[str, Any] = answer["result"]
        return found

    def _receive(self) -> dict[str, Any]:
        """The next message; one that nobody asked for is also kept as an event."""
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._heard:
            ready, _, _ = select.select([self._hear], [], [], max(deadline - time.monotonic(), 0))
            got = os.read(self._hear, 1 << 20) if ready else b""
            assert got, "the browser says nothing"
            self._heard += got
        first, _, self._heard = self._heard.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        if "id" not in message:
            self.events.append(message)
        return message
