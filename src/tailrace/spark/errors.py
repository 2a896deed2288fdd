"""What goes wrong between Spark and a log. Spark shows their text: it must do without the trace behind it."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.model.errors import TailraceError


class PipelineError(TailraceError):
    """Everything that is raised on purpose in this package, and is not a broker's or a file's own error."""


class SparkMissingError(PipelineError):
    """Spark itself is not installed."""

    hint = "pip install 'tailrace[spark]'"


class JavaNotFoundError(PipelineError):
    """There is no Java that Spark can run on."""

    hint = "install tailrace[spark], which brings one, or set JAVA_HOME to a Java 17 or newer"


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


class TableError(PipelineError):
    """What is wrong with a table that a topic becomes."""


class OccupiedTargetError(TableError):
    """The place for a table holds something else. Nothing there was touched."""

    hint = "give another place, or move away what is there; a table of another format is asked for with --format"


class ForeignTableError(TableError):
    """The table is of another topic or cluster, or was made with other settings. Both sides are named."""

    hint = "give another place for a new table; or leave out what differs, to go on with this one as it is"


class SchemaMismatchError(TableError):
    """A declared schema that cannot be read into the table. Shows both. Nothing of its batch was committed."""

    hint = "declare what the table's columns can hold, or give another place for a new table"


class ChangedMeanwhileError(TableError):
    """Somebody else committed to the table since it was loaded. Nothing was committed: load it and plan again."""
