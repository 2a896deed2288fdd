from __future__ import annotations

from tailrace.broker.byte_budget import ByteBudget


def test_what_does_not_fit_waits_for_its_turn() -> None:
    budget = ByteBudget(100)
    served: list[str] = []
    assert budget.take(60)
    assert not budget.take(50)
    budget.wait(50, lambda: served.append("a"))
    assert not budget.take(10), "nobody overtakes who waits"
    budget.wait(10, lambda: served.append("b"))
    budget.give_back(60)
    assert served == ["a", "b"]
    assert budget.held_bytes == 60


def test_one_request_is_let_in_whatever_its_size() -> None:
    budget = ByteBudget(100)
    assert budget.take(1000)
    assert not budget.take(1)
    budget.give_back(1000)
    assert budget.take(1)


def test_who_is_gone_holds_up_nobody() -> None:
    budget = ByteBudget(100)
    served: list[str] = []

    def first() -> None:
        served.append("first")

    def second() -> None:
        served.append("second")

    assert budget.take(60)
    budget.wait(90, first)
    budget.wait(30, second)
    budget.give_up(first)
    assert served == ["second"]


def test_without_a_limit_nobody_waits() -> None:
    budget = ByteBudget(-1)
    assert budget.take(1 << 30)
    assert budget.take(1 << 30)
