"""xdist scheduler for the whole suite: groups of tests, longest first, in two lanes.

A group is a test file, so that fixtures of modules are set up once, or a folder whose files share an expensive fixture
of the session (`SHARED`: a JVM, a set of clients). A folder of more than `MAX_GROUP_SECONDS` becomes several groups, at
most `MAX_PARTS`: each sets up the fixture, and more JVMs at once only slow each other down.

Half of the workers prefer groups that compute, the other half groups that mostly wait for other processes: real
brokers, killed processes, JVMs. With two workers per core the cores stay busy while tests wait. A worker whose own lane
is empty takes groups of the other one.

How long a file takes, and how much of that is CPU time, is in tests/durations.json (`python tools/slow.py --update`).
The committed durations need not be exact; a file without one counts by its number of tests.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pytest

import run_record
from run_record import Times

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

SHARED = ("tests/spark", "tests/compat/clients")
MAX_GROUP_SECONDS = 150
MAX_PARTS = 2
MAX_WAITING_CPU_SHARE = 0.5  # a group that uses less CPU time than this waits
SECONDS_PER_UNKNOWN_TEST = 0.05


class Group(NamedTuple):
    name: str
    tests: tuple[int, ...]  # positions in the collection
    seconds: float
    waits: bool


def plan(collection: Sequence[str], times: Mapping[str, Times], shared: Iterable[str] = SHARED) -> list[Group]:
    """The groups of a collection of node ids, longest first."""
    tests: dict[str, list[int]] = {}
    for position, test in enumerate(collection):
        tests.setdefault(test.partition("::")[0], []).append(position)
    known = {file: times.get(file, _estimate(len(positions))) for file, positions in tests.items()}
    folders: dict[str, list[str]] = {}
    groups: list[Group] = []
    for file, positions in tests.items():
        folder = next((folder for folder in shared if file.startswith(folder + "/")), None)
        if folder:
            folders.setdefault(folder, []).append(file)
        else:
            groups.append(_group(file, positions, known[file]))
    for folder, files in folders.items():
        for number, part in enumerate(_parts(files, known)):
            total = Times(sum(known[file].seconds for file in part), sum(known[file].cpu for file in part))
            groups.append(_group(f"{folder} {number}", [test for file in part for test in tests[file]], total))
    return sorted(groups, key=lambda group: (-group.seconds, group.name))


def known_times(durations: Mapping[str, Mapping[str, Times]], kind: str | None) -> dict[str, Times]:
    """Times by file. Those of this kind of run win over those of others; a run by hand has no kind."""
    runs = sorted(durations, key=lambda run: run == kind)
    return {file: times for run in runs for file, times in durations[run].items()}


def _estimate(tests: int) -> Times:
    return Times(tests * SECONDS_PER_UNKNOWN_TEST, tests * SECONDS_PER_UNKNOWN_TEST)


def _group(name: str, tests: Sequence[int], times: Times) -> Group:
    return Group(name, tuple(tests), times.seconds, times.cpu < MAX_WAITING_CPU_SHARE * times.seconds)


def _parts(files: Sequence[str], times: Mapping[str, Times]) -> list[list[str]]:
    """The files of a folder in as few parts of about equal length as the limits allow."""
    seconds = sum(times[file].seconds for file in files)
    count = min(math.ceil(seconds / MAX_GROUP_SECONDS) or 1, MAX_PARTS)
    parts: list[list[str]] = [[] for _ in range(count)]
    lengths = [0.0] * count
    for file in sorted(files, key=lambda file: -times[file].seconds):
        shortest = lengths.index(min(lengths))
        parts[shortest].append(file)
        lengths[shortest] += times[file].seconds
    return [sorted(part) for part in parts if part]


class Lanes:
    """The groups that have not started: one queue for those that compute, one for those that wait."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._queues: dict[bool, deque[Group]] = {False: deque(), True: deque()}
        for group in groups:
            self._queues[group.waits].append(group)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def take(self, prefers_waiting: bool) -> Group:
        return (self._queues[prefers_waiting] or self._queues[not prefers_waiting]).popleft()

    def put_back(self, group: Group) -> None:
        self._queues[group.waits].appendleft(group)


class Worker:
    """What a worker was given and has not finished."""

    def __init__(self, prefers_waiting: bool) -> None:
        self.prefers_waiting = prefers_waiting
        self.pending: dict[int, Group] = {}  # in the order of execution


class LaneScheduling:
    """Implements `xdist.scheduler.Scheduling`.

    A worker runs a test only when it knows the next one, for the sake of fixtures. So it is given its next group while
    the last test of the group before is pending.
    """

    def __init__(self, workers: int, times: Mapping[str, Times]) -> None:
        self._expected = workers
        self._times = times
        self._workers: dict[WorkerController, Worker] = {}
        self._collections: dict[WorkerController, list[str]] = {}
        self._lanes: Lanes | None = None
        self._collection: list[str] = []

    @property
    def nodes(self) -> list[WorkerController]:
        return list(self._workers)

    @property
    def collection_is_completed(self) -> bool:
        return len(self._collections) >= self._expected

    @property
    def tests_finished(self) -> bool:
        """No worker needs another test to go on; each of them may have one left."""
        if self._lanes is None or self._lanes:
            return False
        return all(len(worker.pending) < 2 for worker in self._workers.values())

    @property
    def has_pending(self) -> bool:
        return bool(self._lanes) or any(worker.pending for worker in self._workers.values())

    def add_node(self, node: WorkerController) -> None:
        waiting = sum(worker.prefers_waiting for worker in self._workers.values())
        self._workers[node] = Worker(prefers_waiting=2 * waiting < len(self._workers))

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        first = next(iter(self._collections.values()), None)
        if first is not None and list(collection) != first:
            raise pytest.UsageError(f"worker {node.gateway.id} collected other tests than the first worker")
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        if self._lanes is None:
            self._collection = next(iter(self._collections.values()))
            self._lanes = Lanes(plan(self._collection, self._times))
        for node in list(self._workers):
            self._assign(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        del self._workers[node].pending[item_index]
        self._assign(node)

    def _assign(self, node: WorkerController) -> None:
        worker = self._workers[node]
        while len(worker.pending) < 2 and not node.shutting_down:
            if not self._lanes:
                node.shutdown()
                return
            group = self._lanes.take(worker.prefers_waiting)
            worker.pending |= dict.fromkeys(group.tests, group)
            node.send_runtest_some(group.tests)

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test in which the worker crashed, if any. Others take over the rest of its groups."""
        pending = self._workers.pop(node).pending
        if not pending or self._lanes is None:
            return None
        crashed, *rest = pending
        for group in dict.fromkeys(pending[test] for test in reversed(rest)):
            self._lanes.put_back(group._replace(tests=tuple(test for test in rest if pending[test] is group)))
        for other in list(self._workers):
            self._assign(other)
        return self._collection[crashed]

    def mark_test_pending(self, item: str) -> None:
        raise NotImplementedError("only xdist's --dist each and worksteal use this")

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        raise NotImplementedError("only xdist's --dist worksteal uses this")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> LaneScheduling | None:
    """Takes the place of xdist's default; another `--dist` is respected."""
    from xdist.workermanage import parse_tx_spec_config

    if config.getoption("dist") != "load":
        return None
    times = known_times(run_record.read_durations(config.rootpath), config.getoption("--spec-results"))
    return LaneScheduling(len(parse_tx_spec_config(config)), times)
