"""The sample data is found in an installed package and in a checkout."""

from __future__ import annotations

from pathlib import Path

from rolloutds.sample_files import sample_data_folder


def test_the_copy_inside_the_package_comes_first(tmp_path: Path) -> None:
    package = tmp_path / "rolloutds"
    (package / "sample_data").mkdir(parents=True)
    (tmp_path / "sample_data").mkdir()
    assert sample_data_folder(package) == package / "sample_data"


def test_a_checkout_has_it_beside_the_package(tmp_path: Path) -> None:
    package = tmp_path / "rolloutds"
    package.mkdir()
    assert sample_data_folder(package) == tmp_path / "sample_data"


def test_this_installation_has_it() -> None:
    assert (sample_data_folder() / "rolloutds.toml").is_file()
