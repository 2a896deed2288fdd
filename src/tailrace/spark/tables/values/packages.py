"""Packages that only some values need: the command, and tables without them, work where they are not installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tailrace.spark.errors import PipelineError


def needed(module: str, purpose: str) -> Any:
    """The module. PipelineError that says how to install it, where it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        raise PipelineError(
            f"{purpose} need the package {module.partition('.')[0]} ({error}): pip install 'tailrace[tables]'"
        ) from error
