"""A screen that is drawn again and again in place; the last frame stays when it ends."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from tailrace.cli.tables import Screen
from tailrace.cli.terminal import Terminal


class LiveScreen:
    """For each frame: fill the screen of `frame`, then `show`."""

    def __init__(self) -> None:
        self._live = Live(console=Terminal(), auto_refresh=False)
        self._parts = Parts()

    def frame(self) -> Screen:
        self._parts = Parts()
        return Screen(self._parts)

    def show(self) -> None:
        end = [Text(), Text("Ctrl-C ends it.", style="dim")]
        self._live.update(Group(*self._parts.found, *end), refresh=True)

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class Parts:
    """Collects what a screen prints. Implements `Printer`."""

    def __init__(self) -> None:
        self.found: list[RenderableType] = []

    def print(self, *objects: Any, soft_wrap: bool | None = None) -> None:
        self.found += objects or (Text(),)
