"""The files of other systems, and the script that makes them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def files() -> Path:
    """Small cursor files of every dialect."""
    return HERE / "files"


@pytest.fixture(scope="session")
def maker() -> ModuleType:
    """`make_files.py`; a test that needs it is skipped without torchdata."""
    pytest.importorskip("torchdata")
    spec = importlib.util.spec_from_file_location("make_files", HERE / "make_files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
