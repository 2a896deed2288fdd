"""The file `quorum-state`: what a voter must not forget of elections. JSON on one line, as Kafka writes it.

    version 0, with kraft.version 0
    {"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}

    version 1, from kraft.version 1 on
    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

`clusterId` and `appliedOffset` are never filled in. Crash rule: replaced as a whole, durably, before anything is
written in the epoch that it names, so that no epoch has two leaders.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError
from tailrace.model.ids import ZERO_DIRECTORY_ID, DirectoryId
from tailrace.raft.voters import NO_NODE
from tailrace.storage.checkpoint import read_small_file, replace_durably

QUORUM_STATE_FILE: Final = "quorum-state"
MAX_EPOCH: Final = 2**31 - 1
"""No message may bring a node here: it could never stand again."""

_MAX_NODE_ID: Final = 2**31 - 1
_MAX_BYTES: Final = 1 << 20
_VERSIONS: Final = (0, 1)


class QuorumState(NamedTuple):
    """`voters` are node ids and only known in version 0."""

    leader_epoch: int
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: DirectoryId = ZERO_DIRECTORY_ID
    voters: tuple[int, ...] = ()

    @classmethod
    def read(cls, files: Files, path: str) -> QuorumState | None:
        """None when there is no file; CorruptCheckpointError when it is damaged or of another version."""
        text = read_small_file(files, path, _MAX_BYTES)
        if text is None:
            return None
        try:
            found = json.loads(text.partition("\n")[0])
        except (ValueError, RecursionError) as error:
            raise CorruptCheckpointError(f"{path} is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise CorruptCheckpointError(f"{path} holds no JSON object")
        version = _number(path, found, "data_version", 2**15 - 1)
        if version not in _VERSIONS:
            raise CorruptCheckpointError(f"{path} has data_version {version}; 0 and 1 are known")
        return cls(
            leader_epoch=_number(path, found, "leaderEpoch", MAX_EPOCH),
            leader_id=_number(path, found, "leaderId", _MAX_NODE_ID, NO_NODE),
            voted_id=_number(path, found, "votedId", _MAX_NODE_ID, NO_NODE),
            voted_directory_id=_directory_id(path, found) if version else ZERO_DIRECTORY_ID,
            voters=() if version else _voters(path, found),
        )

    def write(self, files: Files, path: str, version: int) -> None:
        """Durable when it returns."""
        state: dict[str, Any] = {"leaderId": self.leader_id, "leaderEpoch": self.leader_epoch, "votedId": self.voted_id}
        if version == 0:
            voters = [{"voterId": voter} for voter in self.voters]
            state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": voters}
        else:
            state["votedDirectoryId"] = str(self.voted_directory_id)
        state["data_version"] = version
        replace_durably(files, path, json.dumps(state, separators=(",", ":")).encode())


def _number(path: str, found: dict[str, Any], name: str, most: int, least: int = 0) -> int:
    value = found.get(name)
    if type(value) is not int or not least <= value <= most:
        raise CorruptCheckpointError(f"{path}: {name} is {str(value)[:40]}, not a number from {least} to {most}")
    return value


def _directory_id(path: str, found: dict[str, Any]) -> DirectoryId:
    text = found.get("votedDirectoryId")
    if not isinstance(text, str):
        raise CorruptCheckpointError(f"{path}: votedDirectoryId is no string")
    try:
        return DirectoryId.parse(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: votedDirectoryId is {text[:40]!r}: {error}") from None


def _voters(path: str, found: dict[str, Any]) -> tuple[int, ...]:
    voters = found.get("currentVoters")
    if voters is None:
        return ()
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise CorruptCheckpointError(f"{path}: currentVoters is not a list of voters")
    return tuple(_number(path, voter, "voterId", _MAX_NODE_ID) for voter in voters)
