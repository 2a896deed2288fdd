"""What goes wrong between Spark and a log. Spark shows their text: it must do without the trace behind it."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.model.errors import TailraceError


class PipelineError(TailraceError):
    """Everything that is raised on purpose in this package, and is not a broker's or a file's own error."""


class OptionError(PipelineError):
    """An option, or several together, that cannot be: names them, and what is allowed. Before any job starts."""


class DataLossError(PipelineError):
    """Records that should be there are not. The text says which offsets."""

    hint = "with failOnDataLoss=false the query goes on behind what is missing"

    def __str__(self) -> str:
        """With the hint: Spark shows nothing else."""
        return f"{super().__str__()} ({self.hint})"


class MissingTopicError(PipelineError):
    """Topics, or partitions of topics, that were asked for by name and are not there."""

    def __init__(self, message: str, names: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)
