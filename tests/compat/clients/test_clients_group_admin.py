"""Groups and their offsets from outside, through each client library: committed, listed, described, deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from client_driver import RefusedError
from client_servers import Server
from group_members import Feeder, Kind, Members

pytestmark = pytest.mark.compat

NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


def refusal(ask: Callable[[], object]) -> int:
    with pytest.raises(RefusedError) as refused:
        ask()
    return refused.value.code


def test_offsets_of_a_group_without_members(transactor: Any, name: str, helper: Any) -> None:
    helper.create_topic(name, partitions=3)
    group = f"group-of-{name}"
    assert transactor.committed(group, name) == {}
    helper.commit(group, name, {0: 7, 2: 9})
    assert transactor.committed(group, name) == {0: 7, 2: 9}
    transactor.commit(group, name, {0: 3, 1: 1})
    assert transactor.committed(group, name) == helper.committed(group, name) == {0: 3, 1: 1, 2: 9}
    assert group in transactor.groups()
    assert transactor.group_state(group) == ("EMPTY", 0)


def test_a_group_with_members(transactor: Any, name: str, helper: Any, server: Server) -> None:
    helper.create_topic(name, partitions=2)
    group = f"group-of-{name}"
    feeder = Feeder(server.address, name, 2)
    try:
        with Members(server.address, group, name) as members:
            both = [members.join(Kind("confluent-kafka")) for _ in range(2)]
            members.wait_until_owners_are(both, 2)
            assert group in transactor.groups()
            assert transactor.group_state(group) == ("STABLE", 2)
            if hasattr(transactor, "delete_group"):
                assert refusal(lambda: transactor.delete_group(group)) == NON_EMPTY_GROUP
            counts = feeder.stop()
            members.wait_until_handled(counts, both)
            members.leave(both)
    finally:
        feeder.stop()
    assert transactor.group_state(group) == ("EMPTY", 0)
    assert transactor.committed(group, name) == counts


def test_a_group_is_deleted_with_its_offsets(transactor: Any, topic: str, helper: Any) -> None:
    if not hasattr(transactor, "delete_group"):
        pytest.skip(f"{transactor.name} does not delete groups")
    group = f"group-of-{topic}"
    helper.commit(group, topic, {0: 4})
    transactor.delete_group(group)
    assert group not in helper.groups()
    assert helper.committed(group, topic) == {}
    assert refusal(lambda: transactor.delete_group(group)) == GROUP_ID_NOT_FOUND
