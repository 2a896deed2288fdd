"""Settings of metrics and their reporters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, MAX_LONG, Effect, Kind, Mode, key, plain, text_list, whole
from tailrace.config.voters import host_port

CLUSTER: Final = Mode.CLUSTER
LATER: Final = Effect.LATER
NONE: Final = Effect.NONE


@dataclass(frozen=True)
class ReportingConfig:
    metrics_listener: str | None = key(
        None, host_port, "HOST:PORT where metrics and health are served over HTTP; none when empty", kind=Kind.STRING
    )
    kafka_metrics_polling_interval_secs: int = key(
        10, whole(1, MAX_INT), "how often Java classes that report metrics are called", effect=NONE
    )
    kafka_metrics_reporters: tuple[str, ...] = key((), text_list, "Java classes that report metrics", effect=NONE)
    metric_reporters: tuple[str, ...] = key(
        ("org.apache.kafka.common.metrics.JmxReporter",),
        text_list,
        "Java classes that report metrics; here metrics.listener serves them",
        mode=CLUSTER,
        effect=NONE,
    )
    metrics_num_samples: int = key(2, whole(1, MAX_INT), "samples that a rate is made of", effect=NONE)
    metrics_recording_level: str = key("INFO", plain, "which metrics are kept", effect=NONE)
    metrics_sample_window_ms: int = key(30_000, whole(1, MAX_LONG), "length of a sample", effect=NONE)
    telemetry_max_bytes: int = key(
        1_048_576, whole(1, MAX_INT), "largest report of metrics that a client may push", effect=LATER
    )
