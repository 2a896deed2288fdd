"""Log lines about refused requests of the quorum: what they say, and how often."""

from __future__ import annotations

import pytest

from tailrace.config.voters import Address
from tailrace.env import Clock
from tailrace.model.errors import InvalidDataError
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.messages.vote import VoteRequest
from tailrace.raft.consensus import messages as ms
from tailrace.raft.refusals import RefusalLog
from tailrace.raft.wire import RefusedRequestError

ADDRESS = Address("controller-1", 9093)
CLUSTER, VOTERS, TOPIC_ID, FENCED = 104, 94, 100, 74


class StillClock(Clock):
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def test_a_request_that_is_refused_again_and_again_is_logged_at_growing_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = StillClock()
    log = RefusalLog(clock)
    for number in range(1200):  # two minutes
        clock.ms = number * 100
        log.refused_here(FetchRequest(), RefusedRequestError(FetchResponse(), f"cluster id 'x{number}' is not 'y'"))
    assert [each.message for each in caplog.records] == [
        f"request of another node is refused request=FetchRequest: cluster id 'x{number}' is not 'y'"
        for number in (0, 100, 300, 700)
    ]
    log.refused_here(VoteRequest(), RefusedRequestError(FetchResponse(), "cluster id 'x' is not 'y'"))
    assert len(caplog.records) == 5


@pytest.mark.parametrize(
    ("code", "name", "advice"),
    [
        (CLUSTER, "INCONSISTENT_CLUSTER_ID", "another cluster, check controller.quorum.bootstrap.servers and log.dirs"),
        (VOTERS, "INCONSISTENT_VOTER_SET", "check controller.quorum.voters"),
        (TOPIC_ID, "UNKNOWN_TOPIC_ID", "may be no controller listener"),
    ],
)
def test_a_refusal_that_settings_cause_says_which(
    caplog: pytest.LogCaptureFixture, code: int, name: str, advice: str
) -> None:
    log = RefusalLog(StillClock())
    for _ in range(3):
        log.refused_there(ADDRESS, ms.FetchResponse(code))
    (line,) = caplog.records
    assert line.message.startswith(f"node refuses requests of the quorum address=controller-1:9093 error={name}: ")
    assert advice in line.message


def test_errors_of_elections_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog(StillClock())
    for code in (0, FENCED):
        log.refused_there(ADDRESS, ms.FetchResponse(code))
    assert caplog.records == []


def test_an_invalid_response_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog(StillClock())
    for _ in range(3):
        log.invalid_response(ADDRESS, InvalidDataError("bytes are missing"))
    (line,) = caplog.records
    assert line.message == "response of another node is refused address=controller-1:9093: bytes are missing"
