"""One finding for one fault, and no report without end."""

from __future__ import annotations

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.gathering import few_of_each_rule, once_for_each_entry
from tailrace.spark.auditing.rules import CRC, EPOCH_CHECKPOINT, OFFSET_INDEX
from tailrace.storage.epoch_cache import EpochEntry

EPOCHS = (EpochEntry(0, 0), EpochEntry(1, 20), EpochEntry(5, 40))


def of_checkpoint(offset: int | None) -> Finding:
    return Finding("/t-0/leader-epoch-checkpoint", "t-0", offset, EPOCH_CHECKPOINT, "differs")


def of_log(offset: int, rule: str = CRC) -> Finding:
    return Finding("/t-0/0.log", "t-0", offset, rule, "is wrong", offset)


def test_an_entry_is_told_once() -> None:
    found = [of_checkpoint(offset) for offset in (0, 10, 20, 30, 39, 40, 50)]
    assert [finding.offset for finding in once_for_each_entry(found, EPOCHS)] == [0, 20, 40]


def test_batches_that_a_wrong_entry_is_about_are_not_told() -> None:
    entry = of_checkpoint(30)
    found = [of_log(1, EPOCH_CHECKPOINT), of_log(25, EPOCH_CHECKPOINT), entry, of_log(35, EPOCH_CHECKPOINT), of_log(35)]
    assert once_for_each_entry(found, EPOCHS) == [found[0], entry, found[4]]


def test_all_others_stay() -> None:
    found = [
        of_log(1),
        of_log(1, EPOCH_CHECKPOINT),
        of_log(2, EPOCH_CHECKPOINT),
        of_checkpoint(None),
        of_checkpoint(None),
    ]
    assert once_for_each_entry(found, EPOCHS) == found
    assert once_for_each_entry([], ()) == []


def test_few_of_each_rule() -> None:
    found = [of_log(number) for number in range(10)] + [of_log(3, OFFSET_INDEX)]
    few = few_of_each_rule(found, most=4)
    assert [finding.offset for finding in few] == [0, 1, 2, 3, 3, 4]
    assert few[-1].words == "and 6 more in this folder from here on"
    assert few_of_each_rule(found, most=10) == found
