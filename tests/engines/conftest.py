from __future__ import annotations

import importlib
from types import ModuleType

import pytest


@pytest.fixture
def work() -> ModuleType:
    """What tasks do."""
    return importlib.import_module("tests.engines.engine_work")
