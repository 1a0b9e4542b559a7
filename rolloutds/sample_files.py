"""Where the sample data lies: inside an installed package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE_FOLDER = Path(__file__).resolve().parent


def sample_data_folder(package_folder: Path = _PACKAGE_FOLDER) -> Path:
    """The folder with the sample prompts and their `rolloutds.toml`.

    A wheel carries it inside the package; an editable install has it beside the package, in
    the checkout. The folder may be missing when someone repackaged the project without it.

    Args:
        package_folder: the package's own folder.
    """
    inside = package_folder / "sample_data"
    return inside if inside.is_dir() else package_folder.parent / "sample_data"
