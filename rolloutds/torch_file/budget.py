"""How much a file may cost to read."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True)
class Budget:
    """Limits on one read; what goes beyond is refused, never cut short.

    Attributes:
        max_bytes: size of the file, in bytes.
        max_depth: containers inside containers.
        max_items: elements of all containers together; a shared container counts once.
        max_seconds: wall time of the trial reading; a small file gets less (see `seconds`).
    """

    max_bytes: int = 64 << 30
    max_depth: int = 200
    max_items: int = 1 << 30
    max_seconds: float = 600.0

    def seconds(self, num_bytes: int) -> float:
        """Time for a pickle of `num_bytes`: ten times what the slowest honest one takes."""
        return min(self.max_seconds, 5.0 + num_bytes / _MIB)

    def memory_bytes(self, num_bytes: int) -> int:
        """Memory for a pickle of `num_bytes`.

        Lists of token ids take 14 times their pickle, small dictionaries up to 25 times.
        """
        return 256 * _MIB + 32 * num_bytes
