"""Error codes are found wherever they stand in an answer."""

from __future__ import annotations

import pytest

from tailrace.broker.answer_errors import error_codes
from tailrace.protocol.apis import APIS
from tailrace.protocol.message import Struct
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.protocol.messages.list_groups import ListGroupsResponse


def test_an_answer_with_errors_in_it() -> None:
    good, bad = PartitionData(), PartitionData(error_code=6)
    topics = [FetchableTopicResponse(partitions=[good, bad]), FetchableTopicResponse(partitions=[bad, good])]
    assert list(error_codes(FetchResponse(responses=topics))) == [6, 6]
    assert list(error_codes(FetchResponse(error_code=71, responses=topics))) == [71, 6, 6]
    assert list(error_codes(ListGroupsResponse(error_code=15))) == [15]


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_kind_of_answer_can_be_looked_at(key: int) -> None:
    response: Struct = APIS[key].response()
    assert list(error_codes(response)) == []
