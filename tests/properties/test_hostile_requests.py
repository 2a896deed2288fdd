"""Hostile requests to a real broker over real sockets: it answers or closes, serves everybody else, and stays as it is.

The long test takes TAILRACE_HOSTILE_REQUESTS requests, others each time, but for TAILRACE_HOSTILE_SEED and in the whole
check, where `CI` is set; `make soak` takes more.
"""

from __future__ import annotations

import os
import random

import pytest

import tailrace
from support.hostile.request_load import MAX_GROWTH_BYTES, SETTINGS, RequestStorm, StormTally
from support.hostile.requests import HostileRequests
from support.requests.case import COMPACTED, DATA, Place
from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS
from tailrace.model.errors import TailraceError
from tailrace.protocol.frame import decode_request, decode_request_header

LONG_REQUESTS = int(os.environ.get("TAILRACE_HOSTILE_REQUESTS", "15000"))
CI_SEED = 205
PLACE = Place("/data", {DATA: b"d" * 16, COMPACTED: b"c" * 16})


def stormed(seed: int, count: int) -> StormTally:
    with tailrace.Broker(SETTINGS) as broker, RequestStorm(broker, seed) as storm:
        tally = storm.run(count)
        if tally.grown_bytes >= MAX_GROWTH_BYTES:
            # A process keeps what its busiest moment took, which is more on a busy machine. What is lost grows again.
            tally = storm.run(count)
        storm.hang_up()
        broker.stop()
        broker.start()
        storm.check()
        assert storm.trouble() == [], "what the requests have left is no hindrance to the next start"
        return tally


@pytest.mark.spec("NW-03")
def test_some_hostile_requests() -> None:
    tally = stormed(1, 1500)
    assert tally.trouble == []
    assert tally.answered > 500
    assert tally.closed > 300
    assert tally.grown_bytes < MAX_GROWTH_BYTES


@pytest.mark.long
def test_many_hostile_requests() -> None:
    usual = CI_SEED if "CI" in os.environ else random.randrange(1 << 32)
    seed = int(os.environ.get("TAILRACE_HOSTILE_SEED", usual))
    tally = stormed(seed, LONG_REQUESTS)
    told = f"{tally}, with TAILRACE_HOSTILE_SEED={seed}"
    print(told)
    assert tally.trouble == [], told
    assert tally.grown_bytes < MAX_GROWTH_BYTES, told


@pytest.mark.parametrize("keys", [BROKER_HANDLERS, CONTROLLER_HANDLERS])
def test_the_requests_are_worth_sending(keys: dict[int, str]) -> None:
    """A seed gives the same ones again, they reach every API and version, and not all of them are garbage."""
    requests = HostileRequests(PLACE, keys)
    frames = [requests.draw(random.Random(number)) for number in range(3000)]
    assert frames == [requests.draw(random.Random(number)) for number in range(3000)]
    read, refused = set(), 0
    for frame in frames:
        try:
            header, position = decode_request_header(frame[4:])
            decode_request(header, frame[4:], position)
            read.add((header.request_api_key, header.request_api_version))
        except TailraceError:
            refused += 1
    assert {key for key, _ in read} >= set(keys)
    assert len(read) > len(keys) * 2
    assert 600 < refused < 2400
