"""Helpers of the tests."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

from tremor.testing import Runtime

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGE = TESTS.parent
REPOSITORY = PACKAGE.parent.parent


def environment() -> "dict[str, str]":
    """Returns an environment in which programs find the package."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE / "src")}


def start(program: str, connector: str, **options: Any) -> Runtime:
    """Starts a program of the folder `plugins`."""
    command = [sys.executable, "-W", "error", str(TESTS / "plugins" / program)]
    return Runtime(command, connector, env=environment(), **options)
