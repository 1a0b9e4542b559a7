"""``python -m rolloutds`` is the command ``rolloutds``."""

from __future__ import annotations

from rolloutds.cli import main

if __name__ == "__main__":
    main()
