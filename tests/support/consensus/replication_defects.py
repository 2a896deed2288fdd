"""Defects of fetches, truncation, snapshots and the high watermark; see `injected_defects`."""

from __future__ import annotations

from support.consensus.injection import Defect

DEFECTS = (
    Defect(
        "commit records of earlier epochs directly",
        "leading:Leading.update_high_watermark",
        "if offset <= role.epoch_start:",
        "if offset < 0:",
        0,
    ),
    Defect(
        "count what the leader has not flushed",
        "leading:Leading.update_high_watermark",
        "role.progress.high_watermark(member.log.flushed_offset)",
        "role.progress.high_watermark(member.log.end_offset)",
        1,
    ),
    Defect(
        "count observers for the high watermark",
        "replica_progress:ReplicaProgress._voter_offsets",
        "for node_id, state in self.voters.items():",
        "yield from (state.end_offset for state in self.observers.values())\n"
        "    for node_id, state in self.voters.items():",
        0,
    ),
    Defect(
        "fetch from an offset that is not flushed",
        "member:Member.is_log_settled",
        "return self.log.is_flushed and not is_changing and not self._held",
        "return not is_changing and not self._held",
        0,
    ),
    Defect(
        "accept a truncation below the high watermark",
        "log_view:LogView.end_of_epoch",
        "return EndOffset(self.epochs[following - 1][0], self.epochs[following][1])",
        "return EndOffset(self.epochs[following - 1][0], self.epochs[following - 1][1])",
        0,
    ),
    Defect(
        "answer a diverging fetch with records",
        "log_view:LogView.position",
        "if end.epoch != epoch or end.offset < offset:",
        "if end.epoch == epoch and end.offset < offset:",
        5,
    ),
    Defect(
        "count a diverging fetch",
        "leading:Leading.on_fetch",
        "response.diverging",
        "None",
        13,
    ),
    Defect(
        "append batches of an epoch that is not entered",  # KAFKA-18723
        "following:Following._append",
        "if not is_next or not member.log.last_epoch <= run.epoch <= member.epoch:",
        "if not is_next or run.epoch < member.log.last_epoch:",
        1108,
        has_slow_reads=True,
    ),
    Defect(
        "truncate one record too few",
        "log_view:LogView.truncation_offset",
        "return min(end.offset, diverging.offset)",
        "return min(end.offset, diverging.offset + 1, self.end_offset)",
        6,
    ),
    Defect(
        "keep the answer to a fetch of an earlier role",
        "links:Links.forget",
        "self._by_correlation.clear()",
        "pass",
        0,
    ),
    Defect(
        "stay leader without followers",
        "leading:Leading.poll",
        "min(role.leave_at_ms, role.check_quorum_at_ms)",
        "role.leave_at_ms",
        1,
    ),
    Defect(
        "forget that the high watermark moved for parked fetches",
        "leading:Leading._can_wait",
        "or response.high_watermark > request.high_watermark",
        "",
        2,
    ),
    Defect(
        "move the high watermark of a follower beyond its leader's",
        "following:Following._use",
        "member.move_high_watermark(min(response.high_watermark, member.log.end_offset))",
        "member.move_high_watermark(member.log.end_offset)",
        12,
    ),
    Defect(
        "commit on half of the voters",
        "replica_progress:ReplicaProgress.high_watermark",
        "return offsets[len(offsets) // 2]",
        "return offsets[(len(offsets) - 1) // 2]",
        0,
    ),
    Defect(
        "trust replicas that have not fetched yet",
        "replica_progress:ReplicaProgress._known",
        "ReplicaState(key))",
        "ReplicaState(key, 2**40))",
        0,
    ),
    Defect(
        "let the high watermark go back",
        "member:Member.move_high_watermark",
        "if offset <= self.high_watermark:",
        "if offset == self.high_watermark:",
        1,
    ),
    Defect(
        "compare the epoch of a fetch with the log start only",
        "log_view:LogView.position",
        "if end.epoch != epoch or end.offset < offset:",
        "if end.offset < offset:",
        13,
    ),
    Defect(
        "wait for the answer to a request that was lost",
        "links:Links.expired",
        "if entry.deadline_ms <= now_ms",
        "if False",
        6,
    ),
    Defect(
        "take the high watermark of a snapshot from the log",
        "following:Following.snapshot_installed",
        "member.log_replaced_by(snapshot_id)",
        "member.log.end_offset = member.log.flushed_offset = max(member.log.end_offset, snapshot_id.offset)",
        4,
    ),
    Defect(
        "commit the last record of an earlier epoch directly",
        "transitions:to_leader",
        "epoch_start=member.log.end_offset",
        "epoch_start=member.log.end_offset - 1",
        2,
    ),
    Defect(
        "forget where an epoch began when it is truncated",
        "log_view:LogView.truncate",
        "while self.epochs and self.epochs[-1][1] >= end_offset:",
        "while self.epochs and self.epochs[-1][1] > end_offset:",
        5,
    ),
)
