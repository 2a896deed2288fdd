"""The three ways to show a running demo: a picture on a terminal, lines for a file or pipe, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Final, Protocol

from rich.live import Live

from tailrace.cli.demo_facts import Facts, Rate, Scene, facts_item, scene_item
from tailrace.cli.demo_view import frame, line, summary
from tailrace.cli.terminal import Terminal

FRAME_EVERY_S: Final = 0.25
LINE_EVERY_S: Final = 1.0
HISTORY: Final = 200


class Show(Protocol):
    every_s: float
    """So often `moment` is wanted, the first time when so much has passed."""

    def moment(self, facts: Facts) -> None: ...

    def end(self, facts: Facts) -> None:
        """With the figures of the whole time."""

    def close(self) -> None:
        """Leave the terminal as it was; also after `end`."""


def chosen_show(scene: Scene, *, as_json: bool, is_once: bool) -> Show:
    if as_json:
        return JsonShow(scene)
    return LiveShow(scene, is_once=is_once) if sys.stdout.isatty() else LineShow(scene, is_once=is_once)


class JsonShow:
    def __init__(self, scene: Scene) -> None:
        self.every_s = LINE_EVERY_S
        print(json.dumps(scene_item(scene)), flush=True)

    def moment(self, facts: Facts) -> None:
        print(json.dumps(facts_item("moment", facts)), flush=True)

    def end(self, facts: Facts) -> None:
        print(json.dumps(facts_item("summary", facts)), flush=True)

    def close(self) -> None:
        pass


class LineShow:
    def __init__(self, scene: Scene, *, is_once: bool) -> None:
        self.every_s = LINE_EVERY_S
        self._scene = scene
        self._is_once = is_once
        self._last = ""
        until = "" if is_once else ", until Ctrl-C"
        print(f"broker on {scene.bootstrap}, ready in {scene.ready_s:.2f} s", flush=True)
        print(f"streaming {scene.rate:,} orders/s through topic {scene.topic}{until}", flush=True)

    def moment(self, facts: Facts) -> None:
        text = line(facts)
        if text != self._last:
            print(text, flush=True)
            self._last = text

    def end(self, facts: Facts) -> None:
        terminal = Terminal()
        terminal.print(summary(self._scene, facts, terminal.width, is_once=self._is_once), soft_wrap=True)

    def close(self) -> None:
        pass


class LiveShow:
    """Drawn only when `moment` is called: nothing runs beside the client."""

    def __init__(self, scene: Scene, *, is_once: bool) -> None:
        self.every_s = FRAME_EVERY_S
        self._scene = scene
        self._is_once = is_once
        self._terminal = Terminal()
        self._live = Live(console=self._terminal, auto_refresh=False, transient=True)
        self._history: deque[tuple[Rate, Rate]] = deque(maxlen=HISTORY)
        self._live.start()

    def moment(self, facts: Facts) -> None:
        self._history.append((facts.produced, facts.consumed))
        self._live.update(frame(self._scene, facts, list(self._history), self._terminal.width), refresh=True)

    def end(self, facts: Facts) -> None:
        self._live.stop()
        shown = summary(self._scene, facts, self._terminal.width, is_once=self._is_once)
        self._terminal.print(shown, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()
