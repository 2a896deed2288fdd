"""What executors do for a table: each function here that begins with `run_` is one step of a batch, as Spark jobs.

    append.py, upsert.py, compact.py    the steps
    rows.py                             records into rows and dead letters
    files.py                            rows into Parquet files

Tasks write files that nobody sees, and give back their names. A task that is done twice has written twice, under other
names; only what the driver got back is ever committed.
"""

from tailrace.spark.tables.tasks.append import AppendDone, run_append
from tailrace.spark.tables.tasks.compact import run_compact
from tailrace.spark.tables.tasks.merging import Bucketed
from tailrace.spark.tables.tasks.reading import KeyForm, Reading, Tally, Told
from tailrace.spark.tables.tasks.upsert import UpsertDone, run_upsert

__all__ = [
    "AppendDone",
    "Bucketed",
    "KeyForm",
    "Reading",
    "Tally",
    "Told",
    "UpsertDone",
    "run_append",
    "run_compact",
    "run_upsert",
]
