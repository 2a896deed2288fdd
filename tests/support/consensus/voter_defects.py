"""Defects of the voter set: KIP-853 and the upgrade of kraft.version; see `injected_defects`."""

from __future__ import annotations

from support.consensus.injection import Defect

DEFECTS = (
    Defect(
        "count the leader when it is removed",
        "replica_progress:ReplicaProgress._voter_offsets",
        "for node_id, state in self.voters.items():",
        "yield from () if self._is_voter else (flushed_offset,)\n    for node_id, state in self.voters.items():",
        84,
    ),
    Defect(
        "keep the state of a removed voter",
        "replica_progress:ReplicaProgress.set_voters",
        "previous, self.voters = self.voters, {}",
        "previous = dict(self.voters)",
        15,
    ),
    Defect(
        "keep the voters of a truncated record",
        "voter_log:VoterLog.truncate",
        "self.sets[-1].offset >= end_offset",
        "self.sets[-1].offset > end_offset + 10**9",
        56,
    ),
    Defect(
        "use the voters only when they are committed",
        "voter_changes:VoterChanges._voters_appended",
        "role.progress.set_voters(member.voters)",
        "role.progress.set_voters(member.voter_log.sets[-2])",
        0,
    ),
    Defect(
        "change voters while a change is uncommitted",
        "voter_changes:VoterChanges._busy",
        "if member.voters.offset >= member.high_watermark:",
        "if False:",
        16,
    ),
    Defect(
        "change voters before the epoch is committed",
        "voter_changes:VoterChanges._busy",
        "if not role.has_established:",
        "if False:",
        32,
    ),
    Defect(
        "let a removed leader stay",
        "voter_changes:VoterChanges.on_high_watermark",
        "role.leave_at_ms = min(role.leave_at_ms, member.now_ms + LEAVE_AFTER_MS)",
        "pass",
        26,
    ),
    Defect(
        "never let a removed leader stand",
        "member:Member.may_stand",
        "return self.is_voter or is_being_removed",
        "return self.is_voter",
        19,
    ),
    Defect(
        "keep the old voters after a snapshot",
        "following:Following.snapshot_installed",
        "member.voter_log.replace(base)",
        "pass",
        4,
    ),
    Defect(
        "ignore voter records of fetched batches",
        "following:Following._append",
        "member.change_voters(change)",
        "pass",
        0,
    ),
    Defect(
        "add a voter that has not caught up",
        "voter_changes:VoterChanges.on_versions",
        "elif not role.progress.is_caught_up(key_of(voter), member.now_ms):",
        "elif False:",
        2,
    ),
    Defect(
        "add a voter that lacks the kraft.version",
        "voter_changes:VoterChanges.on_versions",
        "elif not response.min_kraft_version <= version <= response.max_kraft_version:",
        "elif False:",
        6,
    ),
    Defect(
        "acknowledge a change of the voters before it is committed",
        "voter_changes:VoterChanges.on_high_watermark",
        "NO_OFFSET < operation.offset < member.high_watermark",
        "NO_OFFSET < operation.offset",
        9,
    ),
    Defect(
        "remove the last voter",
        "voter_changes:VoterChanges.on_remove",
        "len(member.voters.voters) == 1",
        "False",
        2,
    ),
    Defect(
        "count a voter with another directory",
        "voter_log:VoterSet.has",
        "return voter is not None and voter.directory_id in (ZERO_DIRECTORY_ID, replica.directory_id)",
        "return voter is not None",
        9,
    ),
    Defect(
        "upgrade kraft.version without the directories of all voters",
        "voter_changes:VoterChanges.upgrade",
        "reported = {**role.reported, member.key.node_id: member.local}",
        "configured = {each.node_id: each for each in member.voters.voters}\n"
        "    reported = {**configured, **role.reported, member.key.node_id: member.local}",
        27,
    ),
    Defect(
        "refuse fetches of replicas that are no voters",
        "leading:Leading.on_fetch",
        "error = self.check_leader_request(request.epoch)",
        "error = self.check_leader_request(request.epoch)\n"
        "    error = error if member.voters.has(request.replica) else ErrorCode.INVALID_REQUEST",
        0,
    ),
    Defect(
        "write no voters of the format into the log",
        "transitions:to_leader",
        "if voters.kraft_version > STATIC_VOTERS and voters.offset < 0:",
        "if False:",
        10,
    ),
)
