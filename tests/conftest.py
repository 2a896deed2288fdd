"""Plugins of the whole test suite; fixtures live beside the tests that use them."""

from __future__ import annotations

pytest_plugins = ["pytester", "spec_results"]
