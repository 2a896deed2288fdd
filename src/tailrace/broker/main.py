"""The process of a broker: sockets, threads for jobs, signals, and the node in the middle of them."""

from __future__ import annotations

import gc
import logging
import random
import resource
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from tailrace.broker.bind_error import BindError
from tailrace.broker.exporter import Exporter
from tailrace.broker.metrics import BrokerState
from tailrace.broker.node import Node
from tailrace.broker.process_metrics import ProcessMetrics
from tailrace.broker.reactor import Reactor
from tailrace.broker.socket_network import SocketNetwork
from tailrace.broker.socket_server import SocketServer
from tailrace.broker.stop_signals import StopSignals
from tailrace.config.listeners import Listener
from tailrace.config.server import ServerConfig
from tailrace.env import Env
from tailrace.env.real import RealClock, RealFiles, ThreadJobs
from tailrace.model.errors import TailraceError

_log = logging.getLogger(__name__)

SPARE_JOB_THREADS: Final = 4
FREEZE_EVERY_PARTITIONS: Final = 500
FREEZE_CHECK_MS: Final = 2000
DEFAULT_THRESHOLDS: Final = gc.get_threshold()
NEVER: Final = 1 << 30
WAITING_LINE_S: Final = 8
MAX_WAITING_INTERVAL_S: Final = 512
MAX_SHUTDOWN_S: Final = 420  # longer than a broker waits for the controller: the logs are closed after that


class Ready(NamedTuple):
    """Where clients can connect, and how long it took."""

    listeners: tuple[Listener, ...]
    metrics_port: int | None
    seconds: float


class BrokerProcess:
    """`run` returns when the broker has stopped, with the process's exit code."""

    def __init__(self, config: ServerConfig, ready: Callable[[Ready], None]) -> None:
        self._began = time.monotonic()
        self._config = config
        self._tell_ready = ready
        self._exit_code = 0
        self._is_stopping = False
        self._reactor = Reactor()
        clock = RealClock()
        cleaner_threads = config.broker.cleaner.log_cleaner_threads
        loaders = config.broker.num_recovery_threads_per_data_dir * len(config.broker.directories)
        self._jobs = ThreadJobs(clock, max(cleaner_threads + SPARE_JOB_THREADS, loaders), self._reactor.wake)
        self._network = SocketNetwork(self._reactor, self._jobs, clock)
        env = Env(files=RealFiles(), clock=clock, jobs=self._jobs, random=random.Random(), network=self._network)
        self._node = Node(env, config, _raise_file_limit(), self._failed)
        self._server = SocketServer(
            self._reactor, self._jobs, lambda: self._node.config, self._node.counters, self._node.open_channel
        )
        self._node.metadata.loader.on_preparing.add(suspend_full_collections)
        self._node.metadata.loader.on_prepared.add(resume_full_collections)
        if config.is_broker:
            self._node.on_left.add(self._server.hang_up)
        self._exporter: Exporter | None = None

    def run(self) -> int:
        signals = StopSignals(lambda: self._jobs.later("shut-down", 0, self.stop))
        signals.watch()
        bound = tuple(self._bind(listener) for listener in self._config.listeners)
        try:
            self._start_exporter()
            self._node.start(bound, lambda: self._ready(bound))
            if not self._config.is_alone:  # the other voters must reach this one before there is a leader
                self._server.start(self._config.controller_listener_names)
                self._log_waiting_later(0)
            self._reactor.run(self)
        finally:
            if self._exporter is not None:
                self._exporter.close()
            self._server.close()
            self._network.close()
            if not self._exit_code:
                self._jobs.close()  # else what still runs may never end, and ends with the process
                signals.ignore()
        return self._exit_code

    # What drives the node

    def due_ms(self) -> int | None:
        due_ms = self._server.due_ms()
        waiting_ms, job_ms = self._node.purgatory.due_ms, self._jobs.due_ms
        if waiting_ms is not None and waiting_ms < due_ms:
            due_ms = waiting_ms
        return job_ms if job_ms is not None and job_ms < due_ms else due_ms

    def run_due(self, now_ms: int) -> None:
        self._jobs.step()
        self._node.purgatory.expire_due(now_ms)
        self._server.run_due(now_ms)

    # Start

    def _bind(self, listener: Listener) -> Listener:
        try:
            return Listener(listener.name, listener.host, self._server.bind(listener))
        except OSError as error:
            raise BindError("listeners (--listen)", listener, error) from error

    def _start_exporter(self) -> None:
        where = self._config.metrics_listener
        if not where:
            return
        host, _, port = where.rpartition(":")
        node = self._node
        try:
            self._exporter = Exporter(
                host.strip("[]"),
                int(port),
                node.metrics,
                node.env.jobs.later,
                node.why_not_ready,
                ProcessMetrics(threading.get_ident()),
            )
        except OSError as error:
            raise BindError("metrics.listener", where, error) from error

    def _log_waiting_later(self, waited_s: int) -> None:
        self._jobs.later("waiting", WAITING_LINE_S * 1000, partial(self._log_waiting, waited_s + WAITING_LINE_S))

    def _log_waiting(self, waited_s: int) -> None:
        """A node without a quorum waits as long as it must; its operator should know what for."""
        if self._is_stopping or self._node.counters.broker_state is not BrokerState.STARTING:
            return
        if waited_s & (waited_s - 1) == 0 or waited_s % MAX_WAITING_INTERVAL_S == 0:
            controllers = ", ".join(map(str, self._node.metadata.other_controllers.addresses))
            _log.warning(
                "node waits for the metadata quorum seconds=%s other_controllers=%s: a majority of the voters must run "
                "and reach each other; check their logs, and controller.quorum.bootstrap.servers",
                waited_s,
                controllers,
            )
        self._log_waiting_later(waited_s)

    def _ready(self, bound: tuple[Listener, ...]) -> None:
        self._server.start()
        gc.collect()
        gc.freeze()
        self._freeze_from_time_to_time(0)
        port = self._exporter.port if self._exporter is not None else None
        brokers = tuple(each for each in bound if each.name not in self._config.controller_listener_names)
        self._tell_ready(Ready(brokers or bound, port, time.monotonic() - self._began))

    def _freeze_from_time_to_time(self, frozen_partitions: int) -> None:
        """Objects of partitions stay: no collection need look at all of them again, a tenth of a second each time."""
        count = self._node.partition_count
        if abs(count - frozen_partitions) >= FREEZE_EVERY_PARTITIONS:
            gc.collect(1)
            gc.freeze()
            frozen_partitions = count
        again = partial(self._freeze_from_time_to_time, frozen_partitions)
        self._jobs.later("freeze", FREEZE_CHECK_MS, again)

    # End

    def stop(self) -> None:
        """Cleanly; a second time, or when it takes too long, at once."""
        if self._is_stopping:
            _log.warning("stopped a second time: ends at once")
            self._end(1)
            return
        self._is_stopping = True
        self._server.stop_listening()
        self._jobs.later("shutdown-timeout", MAX_SHUTDOWN_S * 1000, lambda: self._end(1))
        self._node.shutdown(lambda: self._end(0))

    def _failed(self, error: Exception) -> None:
        _log.critical("the broker cannot go on: %s", error)
        hint = error.hint if isinstance(error, TailraceError) else ""
        if hint:
            _log.critical("next step: %s", hint)
        self._end(1)

    def _end(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._reactor.stop()


def _raise_file_limit() -> int:
    """As many open files as the system lets us have; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


def suspend_full_collections() -> None:
    """While a snapshot becomes an image of millions of objects: a full collection stops all threads for 0.2 s."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


def resume_full_collections() -> None:
    """The new objects stay as long as the cluster's partitions: no collection needs to look at them again."""
    gc.freeze()
    gc.set_threshold(*DEFAULT_THRESHOLDS)
