"""What every test gets: a clean environment, and the real data where it lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Set before any test imports transformers, which reads it once.
os.environ["HF_HUB_OFFLINE"] = "1"

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("ROLLOUTDS_SHARED") or REPOSITORY.parent / "shared" / "data")

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("proof", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# What changes colour, width or wording for people who run the suite in a terminal or in CI.
_PRESENTATION = (
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "LINES",
    "NO_COLOR",
    "PY_COLORS",
    "TERMINAL_WIDTH",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "_TYPER_FORCE_DISABLE_TERMINAL",
)


@pytest.fixture(autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """No setting, cache or colour from outside reaches a test, nor a process it starts."""
    for name in [*_PRESENTATION, *(n for n in os.environ if n.startswith("ROLLOUTDS_"))]:
        monkeypatch.delenv(name, raising=False)
    # Not inside tmp_path: tests look at what a command left in their own folder.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real prompts and rollouts; a test that needs it is skipped without."""
    if not SHARED.is_dir():
        pytest.skip(f"no real data at {SHARED} (set ROLLOUTDS_SHARED to another folder)")
    return SHARED
