"""Feature levels of a new cluster: `--feature`, `--release-version`, and the two commands that explain them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from tailrace.cli.lines import Item, print_items
from tailrace.cli.output import CommandError
from tailrace.metadata.feature_levels import (
    FeatureLevel,
    default_levels,
    metadata_version_of,
    requirements,
    unmet_requirements,
)
from tailrace.metadata.versions import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    NAMES,
    SUPPORTED_FEATURES,
)

_FEATURES_HINT: Final = f"the features are {', '.join(sorted(SUPPORTED_FEATURES))}"
_LEVELS_HINT: Final = "`tailrace storage version-mapping` shows the levels of a release"
_RELEASES_HINT: Final = (
    f"releases are {NAMES[MINIMUM_METADATA_VERSION]} to {NAMES[LATEST_METADATA_VERSION]}; 4.0 is the last of 4.0"
)


def run_version_mapping(args: argparse.Namespace) -> int:
    version = release(args.release_version)
    levels = {METADATA_VERSION: version, **default_levels(version)}
    if args.json:
        print_items([_item(FeatureLevel(*each)) for each in levels.items()], as_json=True)
        return 0
    for each in map(FeatureLevel._make, levels.items()):
        print(each)
    return 0


def run_feature_dependencies(args: argparse.Namespace) -> int:
    for wanted in [feature_level(text) for text in args.feature]:
        required = requirements(wanted)
        if args.json:
            print_items([{**_item(wanted), "requires": {each.feature: each.level for each in required}}], as_json=True)
        elif not required:
            print(f"{wanted} has no dependencies.")
        else:
            print(f"{wanted} requires:", *(f"    {each}" for each in required), sep="\n")
    return 0


def chosen_levels(features: Sequence[str], release_version: str | None, *, is_dynamic: bool) -> Mapping[str, int]:
    """The levels of every feature of a new cluster. `is_dynamic`: its voters are records of the log.

    Raises CommandError.
    """
    given = [feature_level(text) for text in features]
    wanted = dict(given)
    if len(wanted) < len(given):
        raise CommandError("--feature names a feature twice", "give each feature one level")
    if METADATA_VERSION in wanted and release_version is not None:
        text = f"--feature {METADATA_VERSION}={wanted[METADATA_VERSION]} and --release-version {release_version}"
        raise CommandError(f"{text} exclude each other", "leave out one of them")
    version = wanted.pop(METADATA_VERSION, None) or release(release_version)
    kraft_version = int(is_dynamic)
    if wanted.get(KRAFT_VERSION, kraft_version) != kraft_version:
        if is_dynamic:
            problem, hint = "without controller.quorum.voters it is 1", f"leave out --feature {KRAFT_VERSION}=0"
        else:
            problem = "with controller.quorum.voters it is 0"
            hint = "replace controller.quorum.voters with controller.quorum.bootstrap.servers"
        raise CommandError(f"{KRAFT_VERSION} cannot be {wanted[KRAFT_VERSION]}: {problem}", hint)
    levels = {METADATA_VERSION: version, **default_levels(version), **wanted, KRAFT_VERSION: kraft_version}
    for level, required in unmet_requirements(levels):
        present = FeatureLevel(required.feature, levels.get(required.feature, 0))
        raise CommandError(
            f"{level} requires {required}, and the cluster has {present}",
            f"raise {required.feature}, or lower {level.feature}",
        )
    return levels


def release(text: str | None) -> int:
    """The metadata.version of a release; the latest for None."""
    if text is None:
        return LATEST_METADATA_VERSION
    found = metadata_version_of(text)
    if found is None:
        raise CommandError(f"there is no release {text}", _RELEASES_HINT)
    return found


def feature_level(text: str) -> FeatureLevel:
    """Of `FEATURE=LEVEL`; only levels that this release supports."""
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals or not level.isascii() or not level.isdecimal() or len(level) > 5:
        raise CommandError(f"--feature {text}: not of the form FEATURE=LEVEL", "for example --feature group.version=1")
    if name not in SUPPORTED_FEATURES:
        raise CommandError(f"there is no feature {name}", _FEATURES_HINT)
    first, last = SUPPORTED_FEATURES[name]
    if not first <= int(level) <= last:
        raise CommandError(f"{name} cannot be {level}: its levels are {first} to {last}", _LEVELS_HINT)
    return FeatureLevel(name, int(level))


def _item(level: FeatureLevel) -> Item:
    item: Item = {"type": "feature", "feature": level.feature, "level": level.level}
    if level.feature == METADATA_VERSION:
        item["release"] = NAMES[level.level]
    return item
