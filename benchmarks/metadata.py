"""The metadata of large clusters: memory, snapshots, changes, a failing broker, and failover of the controller.

    python benchmarks/metadata.py [--brokers 1000] [--partitions 10000,50000,200000] [--json]

There are no topic logs: each size runs one node with the metadata of a whole cluster, in new processes, because
resident memory is measured. See `metadata_node.py` for the cluster. The marks are those of 200,000 partitions.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from metadata_node import (
    FAILING_BROKER,
    FAILING_LEADERS,
    PARTITIONS_PER_TOPIC,
    MetadataNode,
    Shape,
    Times,
    Waited,
    next_snapshot,
    prepare,
    topic_id_of,
)
from tailrace.controller.heartbeats import BrokerState as SessionState
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tailrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.fetch import FetchRequest as FetchMessage
from tailrace.protocol.record_frame import VersionedRecord
from tailrace.protocol.records.topics import PartitionChangeRecord
from tailrace.raft.consensus.messages import FetchRequest, ReplicaKey
from tailrace.raft.wire import QuorumAddress
from tailrace.raft.wire.fetches import ask_fetch

CHANGES: Final = 2000
IDLE_S: Final = 3.0
IDLE_RECORD_S: Final = 0.6
"""A controller that is idle for 500 ms appends a NoOp record."""
FETCH_VERSION: Final = 17
MIN_BATCH_BYTES: Final = 61
PAUSE_S: Final = 0.3
"""Between measurements: what the preceding one left to do is done."""
Figures = dict[str, float]


def _timed(prefix: str, title: str) -> dict[str, tuple[str, str, float | None]]:
    return {
        f"{prefix}_s": (title, "s", 10),
        f"{prefix}_cpu_s": (f"{title}: CPU", "s", None),
        f"{prefix}_stall_ms": (f"{title}: longest stall of the loop", "ms", 50),
        f"{prefix}_round_cpu_ms": (f"{title}: longest work of the loop's thread, CPU", "ms", 50),
    }


ROWS: Final[dict[str, tuple[str, str, float | None]]] = {
    "snapshot_mb": ("snapshot file", "MB", None),
    "broker_bytes": ("memory of a broker, per partition", "bytes", None),
    "controller_bytes": ("memory of a controller, per partition", "bytes", None),
    **_timed("write", "write a snapshot"),
    **_timed("load", "start from a snapshot, broker"),
    **_timed("controller_load", "start from a snapshot, controller"),
    **_timed("replace", "newer snapshot on a broker, 1 % changed"),
    **_timed("controller_replace", "newer snapshot on a standby, 1 % changed"),
    "apply_ms": ("apply one partition change, broker: median", "ms", 1),
    "apply_max_ms": ("apply one partition change, broker: longest", "ms", None),
    "decide_ms": ("decide, append and apply one ISR change, controller: median", "ms", 1),
    "decide_max_ms": ("decide, append and apply one ISR change, controller: longest", "ms", None),
    "heartbeat_ms": ("handle a heartbeat: mean", "ms", None),
    "fetch_ms": ("serve a fetch of the metadata log: mean, CPU", "ms", None),
    "fence_s": ("fence a broker that leads 600 partitions", "s", 0.5),
    "fence_cpu_s": ("fence a broker that leads 600 partitions: CPU", "s", None),
    "resign_ms": ("resign: return to the committed image, CPU", "ms", None),
    "failover_s": ("standby: won election to first committed command", "s", 5),
    "failover_cpu_s": ("standby: won election to first committed command: CPU", "s", None),
    "idle_stall_ms": ("loop without work: longest stall, of the machine's other load", "ms", None),
    "idle_round_ms": ("round of an idle active controller: mean", "ms", None),
}
"""Title, unit and the upper bound, if there is one."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Scale of the cluster metadata on one node, without topic logs.")
    parser.add_argument("--brokers", type=int, default=1000, metavar="N", help="registered brokers (default: 1000)")
    parser.add_argument(
        "--partitions",
        default="10000,50000,200000",
        metavar="N,N,…",
        help="sizes to measure (default: 10000,50000,200000)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per size instead of a table")
    parser.add_argument("--measure", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = [int(text) for text in args.partitions.split(",")]
    if args.measure:
        print(json.dumps(MEASUREMENTS[args.measure](args.folder, Shape(args.brokers, sizes[0]))))
        return 0
    found = {}
    for size in sizes:
        found[size] = measured(Shape(args.brokers, size))
        if args.json:
            print(json.dumps({"brokers": args.brokers, "partitions": size, **found[size]}), flush=True)
    if not args.json:
        show(args.brokers, found)
    return 0


def show(brokers: int, found: dict[int, Figures]) -> None:
    table = Table(title=f"metadata of {brokers:,} brokers, by number of partitions")
    for column in ("", "unit", *(f"{size:,}" for size in found), "mark"):
        table.add_column(column, justify="left" if column in ("", "unit") else "right")
    for key, (title, unit, mark) in ROWS.items():
        figures = [
            f"{figures[key]:,.3g}" if figures[key] < 100 else f"{figures[key]:,.0f}" for figures in found.values()
        ]
        table.add_row(title, unit, *figures, "" if mark is None else f"≤ {mark:g}")
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    console = Console(width=140)
    console.print(table)
    console.print(f"load average at the end: {load}", highlight=False)


def measured(shape: Shape) -> Figures:
    """Each measurement in a process with an own copy of the directory."""
    figures: Figures = {}
    for name in MEASUREMENTS:
        with tempfile.TemporaryDirectory() as folder:
            words = ["--brokers", str(shape.brokers), "--partitions", str(shape.partitions), "--folder", folder]
            for step in ("prepare", name) if name != "prepare" else ():
                command = [sys.executable, __file__, "--measure", step, *words]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                figures |= json.loads(done.stdout)
    return figures


# Measurements, each in a process


def measure_prepare(folder: Path, shape: Shape) -> Figures:
    return {"snapshot_mb": prepare(folder, shape) / 1e6}


def measure_broker(folder: Path, shape: Shape) -> Figures:
    node, waited, size_bytes = started(folder, shape, is_controller=False)
    figures = {"broker_bytes": size_bytes} | waited.figures("load") | changes_applied(node, shape)
    return figures | node.replaced_by(next_snapshot(folder, shape)).figures("replace")


def measure_standby(folder: Path, shape: Shape) -> Figures:
    """A controller that another one has deposed, and that is far behind it."""
    node, _, _ = started(folder, shape, is_controller=True)
    assert node.controller is not None
    begin = time.process_time()
    node.controller.resigned()
    resigned_s = time.process_time() - begin
    waited = node.replaced_by(next_snapshot(folder, shape))
    return {"resign_ms": resigned_s * 1000} | waited.figures("controller_replace")


def measure_controller(folder: Path, shape: Shape) -> Figures:
    node, waited, size_bytes = started(folder, shape, is_controller=True)
    figures = {"controller_bytes": size_bytes} | waited.figures("controller_load")
    figures |= isr_changes(node, shape)
    figures |= heartbeats(node, shape)
    figures |= fetches(node, shape)
    figures |= fencing(node)
    figures |= idle_rounds(node)
    figures["idle_stall_ms"] = node.run_until(idle_for(IDLE_S)).stall_ms
    figures |= failover(node)
    figures |= snapshot_written(node)
    node.close()
    return figures


MEASUREMENTS: Final[dict[str, Callable[[Path, Shape], Figures]]] = {
    "prepare": measure_prepare,
    "broker": measure_broker,
    "standby": measure_standby,
    "controller": measure_controller,
}


def started(folder: Path, shape: Shape, *, is_controller: bool) -> tuple[MetadataNode, Waited, float]:
    """And the bytes of memory per partition."""
    node = MetadataNode(folder, is_controller=is_controller)
    gc.collect()
    before = resident_bytes()
    waited = node.start()
    gc.collect()
    size_bytes = (resident_bytes() - before) / shape.partitions
    gc.freeze()  # as the process does when it is ready
    return node, waited, size_bytes


def changes_applied(node: MetadataNode, shape: Shape) -> Figures:
    """By the loader, as committed batches of one record each."""
    dice, took = random.Random(2), []
    offset, epoch = node.loader.image.offset, node.loader.image.epoch
    for number in range(CHANGES):
        topic, partition = divmod(dice.randrange(shape.partitions), PARTITIONS_PER_TOPIC)
        replicas = node.loader.image.topics_by_id[topic_id_of(topic)].partitions[partition].replicas
        record = PartitionChangeRecord(
            topic_id=topic_id_of(topic), partition_id=partition, isr=list(replicas[: 1 + number % len(replicas)])
        )
        begin = time.perf_counter()
        node.loader.committed([VersionedRecord(record, 1)], offset + number + 1, epoch, 0)
        took.append((time.perf_counter() - begin) * 1000)
    return {"apply_ms": median(took), "apply_max_ms": max(took)}


def isr_changes(node: MetadataNode, shape: Shape) -> Figures:
    """AlterPartition of a leader: a follower leaves the ISR of a partition, or returns to it."""
    assert node.controller is not None
    image, dice, took, responses = node.controller.image, random.Random(3), [], []
    for _ in range(CHANGES):
        topic, index = divmod(dice.randrange(min(shape.partitions, 1000)), PARTITIONS_PER_TOPIC)
        partition = image.topics_by_id[topic_id_of(topic)].partitions[index]
        wanted = partition.replicas[:2] if len(partition.isr) > 2 else partition.replicas
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=image.brokers[partition.leader].epoch,
            topics=[
                RequestTopicData(
                    topic_id=topic_id_of(topic),
                    partitions=[
                        RequestPartitionData(
                            partition_index=index,
                            leader_epoch=partition.leader_epoch,
                            partition_epoch=partition.partition_epoch,
                            new_isr_with_epochs=[
                                BrokerState(broker_id=each, broker_epoch=image.brokers[each].epoch) for each in wanted
                            ],
                        )
                    ],
                )
            ],
        )
        begin = time.perf_counter()
        node.controller.handle(request, 3, None, responses.append)
        took.append((time.perf_counter() - begin) * 1000)
        node.jobs.step()
    node.run_until(lambda: len(responses) == CHANGES)
    assert all(not each.topics[0].partitions[0].error_code for each in responses)
    return {"decide_ms": median(took), "decide_max_ms": max(took)}


def heartbeats(node: MetadataNode, shape: Shape) -> Figures:
    """One of each broker."""
    assert node.controller is not None
    responses: list[Any] = []
    begin = time.perf_counter()
    for broker in list(node.controller.image.brokers.values()):
        request = BrokerHeartbeatRequest(
            broker_id=broker.id, broker_epoch=broker.epoch, current_metadata_offset=node.controller.image.offset
        )
        node.controller.handle(request, 1, None, responses.append)
    took = time.perf_counter() - begin
    node.run_until(lambda: len(responses) == shape.brokers)
    assert all(not each.error_code and not each.is_fenced for each in responses)
    return {"heartbeat_ms": took * 1000 / shape.brokers}


def fetches(node: MetadataNode, shape: Shape) -> Figures:
    """Each broker fetches the last record, as after a NoOp record: request decoded, response encoded."""
    controller = node.controller
    assert controller is not None
    node.run_until(idle_for(IDLE_RECORD_S))
    controller.tick(node.env.clock.monotonic_ms())
    end_offset = node.quorum.log_end_offset
    node.run_until(lambda: node.quorum.high_watermark >= end_offset)
    epoch, high_watermark = node.quorum.epoch, node.quorum.high_watermark
    address = QuorumAddress(node.cluster_id, "CONTROLLER")
    sizes: list[int] = []

    def reply(response: Any) -> None:
        sizes.append(len(encode(response, FETCH_VERSION)))

    begin = Times.now()
    for broker in list(controller.image.brokers.values()):
        replica = ReplicaKey(broker.id, broker.directories[0])
        request = FetchRequest(replica, epoch, end_offset - 1, epoch, high_watermark, 500)
        message = encode(ask_fetch(request, address, 1 << 20), FETCH_VERSION)
        node.quorum.handle(decode(FetchMessage, FETCH_VERSION, message), FETCH_VERSION, "CONTROLLER", reply)
    node.run_until(lambda: len(sizes) == shape.brokers)
    assert all(size > MIN_BATCH_BYTES for size in sizes)
    return {"fetch_ms": (Times.now().cpu_s - begin.cpu_s) * 1000 / shape.brokers}


def fencing(node: MetadataNode) -> Figures:
    """The session of one broker ends; from the round that notices to the commit of all changes."""
    controller = node.controller
    assert controller is not None
    now_ms = node.env.clock.monotonic_ms()
    controller.tick(now_ms)
    for broker_id in controller.image.brokers:
        last_ms = (
            now_ms if broker_id != FAILING_BROKER else now_ms - controller.state.config.broker_session_timeout_ms - 1
        )
        controller.state.heartbeats.touch(broker_id, last_ms, 0, SessionState.UNFENCED)
    partitions = [each for topic in controller.image.topics.values() for each in topic.partitions.values()]
    led = sum(each.leader == FAILING_BROKER for each in partitions)
    begin = Times.now()
    controller.tick(now_ms)
    end_offset = node.quorum.log_end_offset
    waited = node.run_until(lambda: node.quorum.high_watermark >= end_offset, begin)
    assert led == FAILING_LEADERS
    assert not controller.state.index.in_sync(FAILING_BROKER)
    return {"fence_s": waited.seconds, "fence_cpu_s": waited.cpu_s}


def idle_rounds(node: MetadataNode) -> Figures:
    assert node.controller is not None
    now_ms = node.env.clock.monotonic_ms()
    begin = time.perf_counter()
    for number in range(100):
        node.controller.tick(now_ms + number % 2)
    return {"idle_round_ms": (time.perf_counter() - begin) * 10}


def failover(node: MetadataNode) -> Figures:
    """This node's controller as a standby that has just won: the first command is a new topic."""
    controller = node.controller
    assert controller is not None
    controller.resigned()
    node.run_until(idle_for(PAUSE_S))
    responses: list[Any] = []
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="first", num_partitions=1, replication_factor=3)], timeout_ms=30_000
    )
    begin = Times.now()
    controller.became_leader(node.quorum.epoch)
    controller.handle(request, 7, None, responses.append)
    waited = node.run_until(lambda: bool(responses), begin)
    assert not responses[0].topics[0].error_code
    return {"failover_s": waited.seconds, "failover_cpu_s": waited.cpu_s}


def snapshot_written(node: MetadataNode) -> Figures:
    written: list[bool] = []
    node.run_until(idle_for(PAUSE_S))
    waited = node.snapshot(lambda: written.append(True), lambda: bool(written))
    return waited.figures("write")


def idle_for(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
