"""Seeds and numbers of examples of every property test and stress test, from one place.

| profile | when | examples | seeds |
|---|---|---|---|
| development | by default | half | a fixed core, and others in every run |
| ci | `CI` is set | as the test says | a fixed core, and others derived from the tree's hash |
| soak | `TAILRACE_PROFILE=soak` | ten times as many | a fixed core, and ten times as many others in every run |

The core finds again what it found before; the others search where no run has looked. In CI the same tree gives the same
run, and the next tree another one. Every run prints its base seed; `TAILRACE_SEED=N` repeats the run with that seed,
Hypothesis included. `TAILRACE_SEEDS=17` or `TAILRACE_SEEDS=0:1000` replaces the seeds of stress tests.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

BASE_SEED, PROFILE, STRESS_SEEDS = "TAILRACE_SEED", "TAILRACE_PROFILE", "TAILRACE_SEEDS"
ROOT = Path(__file__).resolve().parents[2]
CORE, FRESH = 5, 10
DEFAULT_EXAMPLES = 100  # of a property that does not say how many
MIN_EXAMPLES = 10
MAX_SHOWN_EVENTS = 120


class Profile(NamedTuple):
    name: str
    examples: float  # factor
    fresh: int  # factor


PROFILES = {
    profile.name: profile for profile in (Profile("development", 0.5, 1), Profile("ci", 1, 1), Profile("soak", 10, 10))
}


def profile() -> Profile:
    name = os.environ.get(PROFILE) or ("ci" if "CI" in os.environ else "development")
    try:
        return PROFILES[name]
    except KeyError:
        raise pytest.UsageError(f"{PROFILE}={name}: the profiles are {', '.join(PROFILES)}") from None


def base_seed() -> int:
    """The seed of this run. It is kept in the environment, so that all processes of a run have the same one."""
    if BASE_SEED not in os.environ:
        os.environ[BASE_SEED] = str(_seed_of_tree() if profile().name == "ci" else random.randrange(1 << 32))
    try:
        return int(os.environ[BASE_SEED])
    except ValueError:
        raise pytest.UsageError(f"{BASE_SEED}={os.environ[BASE_SEED]}: a seed is an integer") from None


def _seed_of_tree() -> int:
    """From the hash of the committed tree; 0 without git, and outside a git checkout."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD^{tree}"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout, 16)
    except (OSError, subprocess.CalledProcessError):
        return 0


def examples(count: int = DEFAULT_EXAMPLES) -> int:
    """For `@settings(max_examples=examples(300))`: as many examples as the profile makes of 300."""
    return max(min(count, MIN_EXAMPLES), round(count * profile().examples))


def seeds(core: int = CORE, fresh: int = FRESH) -> list[int]:
    """The seeds of a stress test: `core` fixed ones, then `fresh` ones of this run."""
    if chosen := os.environ.get(STRESS_SEEDS):
        first, _, end = chosen.partition(":")
        return list(range(int(first), int(end) if end else int(first) + 1))
    source = random.Random(base_seed())
    return [*range(core), *(source.randrange(core, 1 << 32) for _ in range(fresh * profile().fresh))]


def fresh_seed() -> int:
    """A seed of this run, for a stress test that has time for one."""
    return seeds(core=0, fresh=1)[0]


def parametrized_seeds(core: int = CORE, fresh: int = FRESH) -> pytest.MarkDecorator:
    """Marks a test to run once per seed, under names that do not change with the seeds: `core-3`, `fresh-7`."""
    chosen = seeds(core, fresh)
    if STRESS_SEEDS in os.environ:
        return pytest.mark.parametrize("seed", chosen)
    names = [
        *(f"core-{number}" for number in range(core)),
        *(f"fresh-{number}" for number in range(len(chosen) - core)),
    ]
    return pytest.mark.parametrize("seed", chosen, ids=names)


@contextmanager
def reproducible(seed: int, events: list[str], path: str) -> Iterator[None]:
    """Adds the last events and the command that repeats the failure to whatever is raised."""
    try:
        yield
    except Exception as error:
        file = Path(path).resolve().relative_to(ROOT)
        shown = "\n".join(events[-MAX_SHOWN_EVENTS:])
        error.add_note(f"{shown}\nrepeat with: {STRESS_SEEDS}={seed} python -m pytest {file}")
        raise


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Runs before the plugin of Hypothesis, which reads the seed. Its own profile for CI never changes its examples."""
    from hypothesis import settings

    in_ci = profile().name == "ci"
    database = {"database": None} if in_ci else {}
    settings.register_profile(
        "tailrace", max_examples=examples(), deadline=None, derandomize=False, print_blob=in_ci, **database
    )
    settings.load_profile("tailrace")
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(base_seed())


def pytest_report_header() -> str:
    origin = " (from the tree)" if profile().name == "ci" and base_seed() == _seed_of_tree() else ""
    return f"seed: {base_seed()}{origin}, profile {profile().name}; repeat with {BASE_SEED}={base_seed()}"
