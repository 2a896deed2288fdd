"""Spark jobs of the tasks of a table: started, watched, and their faults brought back as what they were.

A fault that we raise on purpose is the same the next time. A task gives it back as a result, so that Spark does not
repeat it, and it is raised again where the job was started. All others fail the task, and Spark does what it does.
"""

from __future__ import annotations

import logging
import pickle
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.model.errors import CorruptMessageError, TailraceError
from tailrace.spark.errors import PipelineError
from tailrace.spark.tables.tasks.reading import READ, Tally, Told

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

POLL_S: Final = 0.2
_GROUP: Final = "spark.jobGroup.id"
_log: Final = logging.getLogger("tailrace.spark")
FINAL: Final = (PipelineError, CorruptMessageError)


@dataclass(frozen=True)
class Failure:
    """What a task gives instead of a result."""

    error: TailraceError


def guarded(work: Callable[[T], R], task: T) -> R | Failure:
    """Runs in a task."""
    try:
        return work(task)
    except FINAL as error:
        return Failure(portable(error))


def portable(error: TailraceError) -> TailraceError:
    """The error itself, if it survives the way to the driver; else one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class does when it is made
        return PipelineError(str(error))
    return error


def run_tasks(
    spark: SparkSession,
    step: str,
    work: Callable[[T], R],
    tasks: Sequence[T],
    told: Told | None,
    offsets: int = 0,
    *,
    slices: int | None = None,
) -> list[R | Failure]:
    """What `work` gives for each, in their order. One Spark task for each, or `slices` of them for all."""
    if not tasks:
        return []
    context, slices = spark.sparkContext, slices or len(tasks)
    with watched(context, Tally(step, 0, slices, offsets), told):
        found: list[R | Failure] = context.parallelize(tasks, slices).map(partial(guarded, work)).collect()
    return found


def failure_in(results: Iterable[Any]) -> TailraceError | None:
    return next((each.error for each in results if isinstance(each, Failure)), None)


@contextmanager
def watched(context: SparkContext, whole: Tally, told: Told | None) -> Iterator[None]:
    """Tells how far the job is that is run in the block, whenever more of its tasks are done."""
    if told is None:
        yield
        return
    watch = _Watch(context, whole, told)
    before = context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, watch.group)
    watch.start()
    try:
        yield
    finally:
        watch.end()
        context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type]  # None takes it away
    watch.tell(whole.tasks)


class _Watch:
    """Asks now and then how many tasks are done, in a thread of its own."""

    def __init__(self, context: SparkContext, whole: Tally, told: Told) -> None:
        self.group = f"tailrace-{uuid.uuid4()}"
        self._context = context
        self._whole = whole
        self._told = told
        self._last = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.group, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def tell(self, done: int) -> None:
        """Each number once."""
        whole = self._whole
        if done > self._last:
            self._last = done
            offsets = whole.offsets * done // whole.tasks if whole.step == READ else whole.offsets
            self._told(Tally(whole.step, done, whole.tasks, offsets))

    def _run(self) -> None:
        while not self._ended.wait(POLL_S):
            try:
                done = _tasks_done(self._context, self.group)
            except Exception as error:  # whatever a session says that is being stopped: the job tells it better
                _log.debug("how far a job is cannot be told: %s", error)
                return
            self.tell(min(done, self._whole.tasks))


def _tasks_done(context: SparkContext, group: str) -> int:
    """Of the stage that has the most of them: others are there only to bring together what it gave."""
    tracker = context.statusTracker()
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number)) is not None]
    stages = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds]
    return max((stage.numCompletedTasks for stage in stages if stage is not None), default=0)
