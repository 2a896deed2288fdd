"""Whatever the bytes are, reading them ends in an answer or in a typed error: soon, in little memory, and in the same
way whichever form of the kernels runs. `support.hostile.run` says what is held and how an input is found again."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.seeds import examples
from support import programs
from support.hostile import run as hostile_run
from support.hostile.byte_readers import (
    INT64_MAX,
    INT64_MIN,
    BatchCase,
    Batches,
    CodecCase,
    Codecs,
    LeaderSets,
    SetCase,
)
from support.hostile.files import Checkpoints, SnapshotCase, Snapshots, TextCase
from support.hostile.run import SHARES, Tally, Target, all_targets
from support.records.raw_records import EDGES, batch, damaged
from tailrace.model.invariant import invariant
from tailrace.record import kernels
from tailrace.storage.origin import Origin
from tailrace.storage.validation import ValidationRules

LEAST_INPUTS = 100_000
SHORT_SHARE = 300
SEED = 1

PROVES_BATCHES = pytest.mark.spec("RF-11")  # what the targets say of batches they take fails when a check is missing
TARGETS = [pytest.param(name, marks=PROVES_BATCHES if name in ("batches", "leader sets") else ()) for name in SHARES]

WITH_KERNELS = {"batches": 6_000, "leader sets": 6_000, "appends": 300}
WITH_LITTLE_MEMORY = {"batches": 6_000, "codecs": 20_000, "directories": 500}
ADDRESS_SPACE_BYTES = 1 << 30  # the interpreter and its libraries take a third of it

structured = settings(
    max_examples=examples(300), database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def check(tally: Tally, expected_inputs: int) -> None:
    print(
        f"{tally.target}: {tally.inputs} inputs, {tally.refusals} refused somewhere, slowest {tally.slowest_ms} ms, "
        f"at most {tally.peak_bytes} bytes allocated"
    )
    assert not tally.failed, f"{tally.failed} of {tally.inputs} failed; one of each kind:\n" + "\n".join(
        tally.failures.values()
    )
    assert tally.inputs == expected_inputs
    assert tally.refusals > 0, "the inputs were not hostile at all"


def run_apart(target: str, count: int, *options: str, **environment: str) -> dict[str, Any]:
    """The figures of a run in a process of its own."""
    arguments = (target, "--seed", str(SEED), "--count", str(count), "--verdicts", *options)
    done = subprocess.run(
        programs.command(hostile_run.__name__, *arguments),
        env=programs.environment() | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, f"it ended with {done.returncode}: {done.stderr}"
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "target" in figures, f"it ended with {done.returncode} after {figures['inputs']} inputs: {done.stderr}"
    return figures


def tally_of(figures: dict[str, Any]) -> Tally:
    return Tally(**{name: value for name, value in figures.items() if name != "compiled"})


def test_the_long_run_is_long_enough() -> None:
    assert set(SHARES) == set(all_targets())
    assert sum(SHARES.values()) >= LEAST_INPUTS


class Careless(Target[str]):
    """Breaks the promise that its input names."""

    name = "careless"

    def draw(self, chance: random.Random) -> str:
        return "none"

    def size_of(self, case: str) -> int:
        return len(case)

    def read(self, case: str) -> object:
        return None


class Raising(Careless):
    def read(self, case: str) -> object:
        raise struct.error("unpack requires a buffer of 8 bytes")


class Endless(Careless):
    def read(self, case: str) -> object:
        while True:
            pass


class Greedy(Careless):
    def read(self, case: str) -> object:
        return len(bytes(hostile_run.SLACK_BYTES + 1000))


class Breaking(Careless):
    def read(self, case: str) -> object:
        invariant(False, "a promise of our own")
        return None


@pytest.mark.parametrize(
    ("careless", "complaint"),
    [
        (Raising(), "struct.error"),
        (Endless(), "seconds of processor time"),
        (Greedy(), "made it allocate"),
        (Breaking(), "a promise of our own"),
    ],
)
def test_a_reader_that_breaks_a_promise_is_found_out(
    careless: Careless, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile_run, "CPU_SECONDS", 0.05)
    tally = hostile_run.run(careless, SEED, 1)
    assert tally.failed == 1
    assert complaint in next(iter(tally.failures.values()))
    assert not hostile_run.run(Careless(), SEED, 1).failed


# Damaged bytes, drawn by a fast mutator


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_inputs_end_in_typed_errors(name: str) -> None:
    check(hostile_run.run(all_targets()[name], SEED, SHORT_SHARE), SHORT_SHARE)


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_many_hostile_inputs_end_in_typed_errors(name: str) -> None:
    check(hostile_run.run(all_targets()[name], SEED, SHARES[name], first=SHORT_SHARE), SHARES[name])


def check_both_forms(name: str, count: int) -> None:
    if not kernels.COMPILED:
        pytest.skip("the kernels are not compiled here: `python setup.py build_ext --inplace` needs a C compiler")
    interpreted = run_apart(name, count, TAILRACE_KERNELS="interpreted")
    assert interpreted["compiled"] is False
    check(tally_of(interpreted), count)
    compiled = run_apart(name, count)
    assert compiled["compiled"] is True
    check(tally_of(compiled), count)
    differing = [
        number
        for number, (one, other) in enumerate(zip(compiled["verdicts"], interpreted["verdicts"], strict=True))
        if one != other
    ]
    assert not differing, (
        f"{len(differing)} verdicts differ between the forms of the kernels, first that of {differing[0]}"
    )


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_interpreted_kernels_give_the_same_verdicts(name: str) -> None:
    check_both_forms(name, SHORT_SHARE)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_interpreted_kernels_give_the_same_verdicts_on_many(name: str) -> None:
    check_both_forms(name, WITH_KERNELS[name])


def check_with_little_memory(name: str, count: int) -> None:
    """Libraries allocate behind Python's back: here the operating system refuses them what is too much."""
    check(tally_of(run_apart(name, count, "--memory-limit-bytes", str(ADDRESS_SPACE_BYTES))), count)


@pytest.mark.parametrize("name", WITH_LITTLE_MEMORY)
def test_a_process_with_little_memory_is_enough(name: str) -> None:
    check_with_little_memory(name, SHORT_SHARE)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_LITTLE_MEMORY)
def test_a_process_with_little_memory_is_enough_for_many(name: str) -> None:
    check_with_little_memory(name, WITH_LITTLE_MEMORY[name])


# Structured lies, drawn by Hypothesis: CRC and framing are right, everything else may be anything


@st.composite
def lying_batches(draw: st.DrawFn) -> bytes:
    """A batch with damaged records, any codec, any attributes, and a header that says what it likes."""
    payload, count = draw(damaged())
    fits_int32 = st.sampled_from([edge for edge in EDGES if -(1 << 31) <= edge < 1 << 31])
    lies = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "base_offset": st.sampled_from(EDGES),
                "last_offset_delta": fits_int32,
                "base_timestamp": st.sampled_from(EDGES),
                "max_timestamp": st.sampled_from(EDGES),
                "producer_id": st.sampled_from(EDGES),
                "producer_epoch": st.sampled_from([-1, 0, 32767, -32768]),
                "base_sequence": fits_int32,
                "leader_epoch": fits_int32,
                "record_count": fits_int32,
            },
        )
    )
    attributes = draw(st.sampled_from([0, 0x08, 0x10, 0x20, 0x30, 0x40, 0x7F8, -0x8000]))
    clamped = max(min(count, (1 << 31) - 1), -(1 << 31))
    lies.setdefault("last_offset_delta", max(clamped - 1, -(1 << 31)))
    data, _ = batch(payload, clamped, draw(st.integers(0, 4)), attributes, **lies)
    return data


@PROVES_BATCHES
@structured
@given(
    rows=st.lists(lying_batches(), min_size=1, max_size=3),
    require_key=st.booleans(),
    keep_every=st.integers(1, 3),
    horizon=st.sampled_from([None, 0, INT64_MAX]),
)
def test_batches_that_lie_behind_a_right_crc(
    rows: list[bytes], require_key: bool, keep_every: int, horizon: int | None
) -> None:
    Batches().read(BatchCase(b"".join(rows), require_key, INT64_MIN, INT64_MAX, keep_every, horizon))


@PROVES_BATCHES
@structured
@given(
    rows=st.lists(lying_batches(), min_size=1, max_size=2),
    origin=st.sampled_from(Origin),
    timestamp_type=st.integers(0, 1),
    target_codec=st.sampled_from([None, 0, 1, 2, 3, 4]),
    first_offset=st.sampled_from([0, 7, 1 << 62]),
)
def test_sets_that_lie_behind_a_right_crc(
    rows: list[bytes], origin: Origin, timestamp_type: int, target_codec: int | None, first_offset: int
) -> None:
    rules = ValidationRules(timestamp_type, INT64_MAX, INT64_MAX, False, target_codec, 1 << 20)
    LeaderSets().read(SetCase(b"".join(rows), origin, rules, True, first_offset, 1))


@structured
@given(data=st.binary(max_size=400), codec=st.integers(0, 7))
def test_bytes_that_never_were_anything(data: bytes, codec: int) -> None:
    Batches().read(BatchCase(data, False, INT64_MIN, INT64_MAX, 1, None))
    Codecs().read(CodecCase(codec, data, 1))
    Snapshots().read(SnapshotCase(((50, data),), 0, 100, None))


@structured
@given(
    lines=st.lists(
        st.lists(st.one_of(st.text(max_size=8), st.integers().map(str)), max_size=4).map(" ".join), max_size=4
    ),
    version=st.sampled_from(["0", "1", "-0", " 0 "]),
    count_is_right=st.booleans(),
)
def test_text_that_is_no_checkpoint(lines: list[str], version: str, count_is_right: bool) -> None:
    text = "\n".join([version, str(len(lines) if count_is_right else 7), *lines, ""])
    Checkpoints().read(TextCase("offsets", text.encode("utf-8", "surrogatepass")))
