"""The consensus of the metadata quorum (KRaft) as a pure state machine: values in, effects out.

`RaftCore` is one replica: a voter or an observer. It has no files, sockets, threads, clock or randomness, and it keeps
no records. It knows the offsets and epochs of the log (`LogView`), its voter records (`VoterLog`) and the
election state (`QuorumState`). The rules are those of Kafka: KIP-595 (elections, replication by Fetch), KIP-630
(snapshots), KIP-853 (voters that change), KIP-996 (pre-votes), KIP-1166 (high watermark in Fetch).

    input                      from
    start, tick                the clock: `tick` is due at `next_deadline_ms`
    receive                    a request of another replica or an administrator (`messages`)
    answered, failed           the network: the end of a `Send`
    persisted                  the disk: a PersistElection, FlushLog or TruncateLog is done
    snapshot_installed, _failed, _created, trimmed    the disk: snapshots, and what they replace
    appended                   the controller of a leader: its records are in the log
    leader_unreachable         the network: evidence that the leader's process is gone
    upgrade_kraft_version      the controller: UpdateFeatures
    stop                       the node: a clean stop begins

Driver. It calls one input at a time and executes the returned effects (`effects`) in order, before the next input. It
owns the log, the files quorum-state and snapshots, jobs and connections:

- `StoredLog` and `QuorumState` say what the disk had at the start, durably: what a killed process has left in the page
  cache is synced before. The log must have no gap and no torn batch.
- Appends and truncations change the file in the order of the effects. Only durability comes later, by `persisted`.
- A fetch response from the network is decoded first: the driver validates its batches and describes them as `LogRun`s.
  `AppendFetched` says how far they are appended.
- The driver checks cluster id, topic and partition, and authorizes; the core checks all else. A request that is decoded
  well never raises. Error codes are Kafka's (`ErrorCode`).
- A batch is in the log as a whole or not at all. Flushes that were begun before a truncation need no care: each effect
  is reported by its own number, and a number that no longer counts is ignored.
- RoleChanged, LeadershipLost and VotersChanged come at once; everything else waits for the election state, in order.
- Times are monotonic milliseconds. A clock that jumps may cost an election, never a record.
- After `Fail`, or when an effect cannot be executed, the node stops.

Crash rules. The core keeps back every message and every write to the log that depends on an election state that is not
durable yet. A fetch is sent only when the log is durable up to its offset, and a leader counts itself only up to there.
So a crash may lose whatever was not `persisted`. After it the node starts Unattached and keeps its vote: it never leads
an epoch twice, and a leader of earlier life does not lead before it is elected again.

Differences from Kafka, all invisible to Kafka nodes except in time:

- Fast election (`ConsensusConfig.has_fast_election`). A follower with evidence that its leader is gone becomes
  Prospective at once, later by 100 ms for each voter with a lower id, and grants pre-votes. Evidence is
  `leader_unreachable`, or that the leader itself answers that it leads no longer. At the start a voter that hears from
  a majority that there is no leader does the same. Votes are unchanged.
- A voter that granted a pre-vote to a voter with a lower id becomes a candidate at most half an election timeout later
  than it could: two followers that lose their leader at the same time do not split the vote. A prospective voter asks
  a voter with a shorter log again when that one asks for a pre-vote itself.
- A leader that was removed from the voters may stand for election until that is committed; it is not counted.
- Resigned and restarted leaders, and prospective nodes, report no leader. They do not enter a new epoch for that.
- Messages that contradict what is known are refused; they do not end the process.

Who may call. `raft/core_driver.py`, on the node's thread.
"""

from tailrace.raft.consensus.consensus_config import ConsensusConfig
from tailrace.raft.consensus.error_code import ErrorCode
from tailrace.raft.consensus.messages import LogRun, ReplicaKey, VoterChange
from tailrace.raft.consensus.raft_core import RaftCore, StoredLog

__all__ = [
    "ConsensusConfig",
    "ErrorCode",
    "LogRun",
    "RaftCore",
    "ReplicaKey",
    "StoredLog",
    "VoterChange",
]
