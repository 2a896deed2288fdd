"""The work that a broker does on its logs from time to time.

    kafka-log-retention                  every `log.retention.check.interval.ms`: old segments of uncompacted logs
    kafka-log-flusher                    every `log.flush.scheduler.interval.ms`: logs whose `flush.ms` has passed
    kafka-recovery-point-checkpoint      every `log.flush.offset.checkpoint.interval.ms`
    kafka-log-start-offset-checkpoint    every `log.flush.start.offset.checkpoint.interval.ms`
    kafka-delete-logs                    when the next deleted partition is due

Each runs for the first time after `log.initial.task.delay.ms`, on the owner's thread; syncing and unlinking are jobs of
their own. A task that fails is run again when its time comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from tailrace.config.broker import BrokerConfig
from tailrace.env import Jobs
from tailrace.model.errors import NoLiveLogDirError, TailraceError

_log = logging.getLogger(__name__)


class BackgroundTasks:
    def __init__(self, jobs: Jobs, config: BrokerConfig) -> None:
        self._jobs = jobs
        self._config = config
        self._is_stopped = False

    def start(
        self,
        *,
        retention: Callable[[], object],
        flusher: Callable[[], object],
        recovery_points: Callable[[], object],
        log_starts: Callable[[], object],
        delete_logs: Callable[[], int],
    ) -> None:
        """`delete_logs` returns in how many milliseconds it wants to be run again."""
        config = self._config
        self._every("kafka-log-retention", config.log_retention_check_interval_ms, retention)
        self._every("kafka-log-flusher", config.log_flush_scheduler_interval_ms, flusher)
        self._every("kafka-recovery-point-checkpoint", config.log_flush_offset_checkpoint_interval_ms, recovery_points)
        self._every(
            "kafka-log-start-offset-checkpoint", config.log_flush_start_offset_checkpoint_interval_ms, log_starts
        )
        self._schedule("kafka-delete-logs", config.log_initial_task_delay_ms, delete_logs)

    def stop(self) -> None:
        """What is scheduled finds nothing to do."""
        self._is_stopped = True

    def _every(self, name: str, interval_ms: int, task: Callable[[], object]) -> None:
        # An interval of 0 would leave no time for anything else.
        def run() -> int:
            try:
                task()
            except NoLiveLogDirError:
                raise
            except TailraceError as error:
                _log.error("%s: %s", name, error)
            return max(interval_ms, 1)

        self._schedule(name, self._config.log_initial_task_delay_ms, run)

    def _schedule(self, name: str, delay_ms: int, task: Callable[[], int]) -> None:
        self._jobs.later(name, delay_ms, partial(self._run, name, task))

    def _run(self, name: str, task: Callable[[], int]) -> None:
        if not self._is_stopped:
            self._schedule(name, task(), task)
