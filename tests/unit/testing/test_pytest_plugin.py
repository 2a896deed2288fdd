"""The plugin's fixtures, in a pytest of their own, with a broker that only notes what is asked of it."""

from __future__ import annotations

import pytest

STUB = """
    import pytest
    from tailrace.testing import broker as module

    class Stub:
        def __init__(self, settings):
            self.settings, self.topics = settings, []
        def __enter__(self):
            print("started")
            return self
        def __exit__(self, *_):
            print("ended")
        def create_topic(self, name):
            self.topics.append(name)
            return name

    module.Broker = Stub
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(STUB)
    return pytester


def test_one_broker_for_all_and_a_topic_for_each(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import re

        def test_first(tailrace_broker, tailrace_topic):
            assert tailrace_broker.topics == [tailrace_topic]
            assert tailrace_broker.settings == {}
            assert re.fullmatch("test-first-[0-9a-f]{8}", tailrace_topic)

        def test_second(tailrace_broker, tailrace_topic):
            assert len(set(tailrace_broker.topics)) == 2
        """
    )
    result = run.runpytest_subprocess("-s", "-q")
    result.assert_outcomes(passed=2)
    assert str(result.stdout).count("started") == 1
    assert str(result.stdout).count("ended") == 1


def test_names_of_parametrised_tests_are_made_legal(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest, re

        @pytest.mark.parametrize("what", ["two apples/größe", "x" * 300])
        def test_it(tailrace_topic, what):
            assert re.fullmatch("[a-zA-Z0-9-]{1,249}", tailrace_topic)
        """
    )
    run.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_settings_are_the_users(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def tailrace_settings():
            return {"num.partitions": 3}

        def test_it(tailrace_broker):
            assert tailrace_broker.settings == {"num.partitions": 3}
        """
    )
    run.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_nothing_is_loaded_for_tests_that_need_no_broker(run: pytest.Pytester) -> None:
    run.makeconftest("")
    run.makepyfile(
        """
        import sys

        def test_it():
            loaded = {name for name in sys.modules if name.startswith("tailrace.")}
            assert loaded == {"tailrace.testing", "tailrace.testing.pytest_plugin"}
        """
    )
    run.runpytest_subprocess("-q").assert_outcomes(passed=1)
