"""Let a real Kafka 4.3.1 write the directories under tests/golden/kafka-4.3.1, and its tools say what is in them.

    python tools/make_golden.py [--out DIR] [--port PORT]

Run by hand, when a case is added; the result is checked in. Needs Java 17, Maven and the `dev` packages, takes about
two minutes, and listens on 127.0.0.1 only (PORT and PORT + 1, default 19092). Each case becomes

    <case>/<case>-0/         the partition directory as Kafka left it
    <case>/expected.json     Kafka's dump of its files, and the broker's answers to ListOffsets and Fetch before the end

and the checkpoints and markers of the two log dirs go to `log-dirs/clean` and `log-dirs/killed`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from golden import expected  # noqa: E402
from golden.broker import Broker  # noqa: E402
from golden.cases import CLEAN, EPOCHS, KILLED, Case, Notes  # noqa: E402
from golden.planted import LEGACY, plant  # noqa: E402

OUT = ROOT / "tests" / "golden" / "kafka-4.3.1"
LOG_DIR_FILES = (*expected.CHECKPOINTS, "meta.properties", ".kafka_cleanshutdown")


def write(broker: Broker, cases: Sequence[Case]) -> dict[str, Notes]:
    notes = {}
    for case in cases:
        print(f"  {case.name}", flush=True)
        broker.create_topic(case.name, case.settings)
        notes[case.name] = case.write(broker, case.name)
    return notes


def ask_all(broker: Broker, cases: Sequence[Case]) -> dict[str, dict[str, Any]]:
    folders = {case.name: broker.partition_dir(case.name) for case in cases}
    dumps = expected.dumps_of(list(folders.values()), [".log"])
    return {case.name: expected.ask(broker, case, dumps[folders[case.name]]) for case in cases}


def write_clean(broker: Broker) -> tuple[list[Case], dict[str, Notes], dict[str, dict[str, Any]]]:
    """The cases that end with an orderly shutdown; first those that want the broker killed and restarted."""
    legacy = [case for case, _ in LEGACY]
    notes = write(broker, [EPOCHS, *legacy])
    broker.kill()
    for case, make_log in LEGACY:
        plant(broker, case.name, make_log())
    broker.start()
    EPOCHS.write(broker, EPOCHS.name)
    for _ in range(2):
        broker.stop()
        broker.start()
        EPOCHS.write(broker, EPOCHS.name)
    notes |= write(broker, CLEAN)
    cases = [EPOCHS, *legacy, *CLEAN]
    answers = ask_all(broker, cases)
    broker.stop()
    return cases, notes, answers


def write_killed(broker: Broker) -> tuple[list[Case], dict[str, Notes], dict[str, dict[str, Any]]]:
    notes = write(broker, KILLED)
    answers = ask_all(broker, KILLED)
    broker.kill()
    return KILLED, notes, answers


def keep(
    broker: Broker, out: Path, ending: str, cases: Sequence[Case], notes: dict[str, Notes], answers: dict[str, Any]
) -> None:
    """Copy the directories and write the expectations beside them."""
    log_dir_copy = out / "log-dirs" / ending
    log_dir_copy.mkdir(parents=True)
    for name in LOG_DIR_FILES:
        if (broker.log_dir / name).exists():
            shutil.copyfile(broker.log_dir / name, log_dir_copy / name)
    folders = {}
    for case in cases:
        folders[case.name] = out / case.name / f"{case.name}-0"
        shutil.copytree(broker.partition_dir(case.name), folders[case.name], copy_function=shutil.copyfile)
    dumps = expected.dumps_of(list(folders.values()))
    checkpoints = {name: broker.checkpoint(name) for name in expected.CHECKPOINTS}
    for case in cases:
        folder = folders[case.name]
        described = expected.describe(case, folder, dumps[folder], notes[case.name]) | {
            "shutdown": ending,
            "checkpoints": {name: entries.get(folder.name) for name, entries in checkpoints.items()},
            "answers": answers[case.name],
        }
        (out / case.name / "expected.json").write_text(expected.to_text(described) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="replaced as a whole")
    parser.add_argument("--port", type=int, default=19092)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        made = Path(temporary) / "made"
        for ending, writing in (("clean", write_clean), ("killed", write_killed)):
            print(ending, flush=True)
            with Broker(Path(temporary) / ending, options.port) as broker:
                cases, notes, answers = writing(broker)
                keep(broker, made, ending, cases, notes, answers)
        if options.out.exists():
            shutil.rmtree(options.out)
        shutil.copytree(made, options.out)
    total = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    print(f"{total:,} bytes in {options.out}")


if __name__ == "__main__":
    main()
