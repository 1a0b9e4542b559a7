"""A data source that the workers of a Ray cluster share; Ray loads when one is made."""

from __future__ import annotations

from rolloutds.integrations.ray.errors import CapacityError, SharedSourceError
from rolloutds.integrations.ray.shared_source import SharedDataSource

__all__ = ["CapacityError", "SharedDataSource", "SharedSourceError"]
