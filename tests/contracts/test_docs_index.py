"""The table of pages is complete, and links between the project's own pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *CHECKOUT.glob("*.md")])


def links(page: Path) -> list[str]:
    """The relative targets of a page's links, without anchors; code blocks are left out."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    targets = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text)
    return [target for target in targets if "://" not in target]


def test_the_index_names_every_page() -> None:
    named = {(DOCS / target).resolve() for target in links(DOCS / "index.md")}
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {(DOCS / "index.md").resolve()}
    assert pages - named == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []
