"""The data source of a reinforcement-learning post-training run, and the tools to look inside it.

Public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolloutds.check_api import check_dataset, check_groups
    from rolloutds.config import DataSourceConfig
    from rolloutds.cursor import Cursor
    from rolloutds.dataset import Dataset
    from rolloutds.errors import RolloutDSError
    from rolloutds.filters import load_function, pop_first
    from rolloutds.sample import Sample, SampleGroup
    from rolloutds.shuffle import epoch_order
    from rolloutds.source import DataSource, RolloutDataSource, RolloutDataSourceWithBuffer

__version__ = "0.1.0"

_HOMES = {
    "Cursor": "cursor",
    "DataSource": "source",
    "DataSourceConfig": "config",
    "Dataset": "dataset",
    "RolloutDSError": "errors",
    "RolloutDataSource": "source",
    "RolloutDataSourceWithBuffer": "source",
    "Sample": "sample",
    "SampleGroup": "sample",
    "check_dataset": "check_api",
    "check_groups": "check_api",
    "epoch_order": "shuffle",
    "load_function": "filters",
    "pop_first": "filters",
}

__all__ = [
    "Cursor",
    "DataSource",
    "DataSourceConfig",
    "Dataset",
    "RolloutDSError",
    "RolloutDataSource",
    "RolloutDataSourceWithBuffer",
    "Sample",
    "SampleGroup",
    "check_dataset",
    "check_groups",
    "epoch_order",
    "load_function",
    "pop_first",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
