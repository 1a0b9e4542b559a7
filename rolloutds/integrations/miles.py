"""miles' data source, in place: ``--data-source-path rolloutds.integrations.miles.…``.

miles shares slime's cursor file, samples and flags; its ``--chat-template-path`` is read here.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from rolloutds.config import DataSourceConfig
from rolloutds.integrations import slime


class _Miles(slime.FrameworkSource):
    packages = ("miles",)

    def _config_of(self, args: Any) -> DataSourceConfig:
        config = slime.config_of(args)
        template = getattr(args, "chat_template_path", None)
        if template is None or config.chat_template is not None:
            return config
        return dataclasses.replace(config, chat_template=template)


class RolloutDataSource(_Miles, slime.RolloutDataSource):
    """Groups of miles' samples from the dataset; see `rolloutds.integrations.slime`."""


class RolloutDataSourceWithBuffer(_Miles, slime.RolloutDataSourceWithBuffer):
    """Groups of miles' samples, from a buffer first; see `rolloutds.integrations.slime`."""
