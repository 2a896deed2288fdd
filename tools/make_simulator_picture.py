"""Writes docs/images/simulator.png: a part of a space-time diagram, as Chromium shows it.

    python tools/make_simulator_picture.py

Two brokers run with three faults. It needs Chromium: run it when the diagram has changed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from page_picture import take
from tailrace.sim.diagram import space_time_diagram
from tailrace.sim.fault_schedule import FaultSchedule
from tailrace.sim.scenarios import NODES, ScenarioParameters, build_run

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "images" / "simulator.png"
WIDTH_PX, HEIGHT_PX = 1230, 720
SEED: Final = 17
START_US, END_US = 990_000, 2_600_000
SCHEDULE: Final = """\
+1.000 s   kill broker-1, for 0.400 s
+1.020 s   lossy broker-2 and client-2.1, for 0.700 s, value 40
+1.600 s   pause broker-1, for 0.300 s
"""


def main() -> None:
    schedule = FaultSchedule.parse(SCHEDULE)
    run = build_run(NODES, SEED, ScenarioParameters(brokers=2, rate=4, seconds=3, schedule=schedule))
    run.run()
    events = [event for event in run.universe.log.events if START_US <= event.time_us < END_US]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "run.html"
        page.write_text(space_time_diagram(events, run.in_columns(), f"tailrace sim replay {SEED}"))
        take(page, PICTURE, WIDTH_PX, HEIGHT_PX)
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
