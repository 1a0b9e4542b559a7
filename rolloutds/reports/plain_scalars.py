"""NumPy scalars of a file as the plain values they equal: a truth of NumPy is a truth here."""

from __future__ import annotations

from typing import Any

from rolloutds.torch_file import PlainScalar
from rolloutds.torch_file.exchange import Exchange


class PlainScalars(Exchange):
    """Puts plain values in place of NumPy scalars, as values and as keys of dicts."""

    kinds = (PlainScalar,)

    def made(self, value: Any) -> Any:
        """The value of a plain type that it equals."""
        return value.tolist()

    def _container(self, value: Any) -> Any:
        made = super()._container(value)
        if not isinstance(made, dict) or not any(isinstance(key, PlainScalar) for key in made):
            return made
        return {_plain_key(key): item for key, item in made.items()}


def _plain_key(key: Any) -> Any:
    return key.tolist() if isinstance(key, PlainScalar) else key
