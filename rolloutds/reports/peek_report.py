"""What `peek` says: what is read and where it stands, then the groups in a table or whole."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from rolloutds.peek import Appearances, Listing, PeekedGroup, summarize
from rolloutds.reports.data_facts import (
    data_facts,
    data_record,
    order_text,
    run_facts,
    start_record,
    start_text,
)
from rolloutds.reports.group_table import appearances_table, listing_table
from rolloutds.reports.model import Facts, Report
from rolloutds.reports.whole_groups import whole_groups

# cli/plan.py takes the two about data from here.
__all__ = ["appearances_report", "data_facts", "data_record", "group_report", "listing_report"]


def listing_report(listing: Listing, *, full: bool, draws_rollouts: bool) -> Report:
    """The groups from a cursor on, as a table, or whole when `full`."""
    dataset = listing.dataset
    summary = summarize(dataset)
    facts = [
        *data_facts(summary),
        ("order", order_text(dataset, _epochs(listing))),
        ("start", start_text(dataset, listing.start)),
        *run_facts(dataset),
    ]
    shown = (
        whole_groups(listing, dataset)
        if full
        else [listing_table(listing, dataset, draws_rollouts=draws_rollouts)]
    )
    return Report(
        kind="peek",
        data=data_record(dataset, summary) | {"start": start_record(dataset, listing.start)},
        records_name="groups",
        records=(record(group) for group in listing),
        sections=chain([Facts(facts)], shown),
    )


def appearances_report(found: Appearances, groups: Iterable[PeekedGroup], *, full: bool) -> Report:
    """Where certain rows are served, epoch by epoch, with the rollout each falls in."""
    dataset = found.dataset
    summary = summarize(dataset)
    facts = [
        *data_facts(summary),
        ("order", order_text(dataset, found.epochs)),
        *run_facts(dataset),
    ]
    shown = whole_groups(groups, dataset) if full else [appearances_table(groups, dataset)]
    return Report(
        kind="peek",
        data=data_record(dataset, summary),
        records_name="groups",
        records=(record(group) | {"rollout_id": group.rollout_id} for group in groups),
        sections=chain([Facts(facts)], shown),
    )


def group_report(listing: Listing) -> Report:
    """One group with everything it has."""
    dataset = listing.dataset
    return Report(
        kind="peek",
        data=data_record(dataset, summarize(dataset))
        | {"start": start_record(dataset, listing.start)},
        records_name="groups",
        records=(record(group) for group in listing),
        sections=whole_groups(listing, dataset, with_indices=True),
    )


def _epochs(listing: Listing) -> range:
    dataset, start = listing.dataset, listing.start
    end = start.advanced(listing.num_groups, len(dataset), dataset.config.n_samples_per_prompt)
    first = start.advanced(min(listing.num_groups, 1), len(dataset), 1).epoch_id
    return range(first, end.epoch_id + 1)


def record(group: PeekedGroup) -> dict[str, Any]:
    """A group for programs; these keys are what ``--format jsonl`` promises."""
    return {
        "position": group.position,
        "epoch_id": group.epoch_id,
        "sample_offset": group.sample_offset,
        "row_id": group.place.row_id,
        "line": group.place.line,
        "file": group.place.file,
        "sample_group_index": group.sample_group_index,
        "sample_index": group.sample_index,
        "n_samples_per_prompt": group.n_samples_per_prompt,
        "prompt": group.sample.prompt,
        "prompt_tokens": group.prompt_tokens,
        "label": group.sample.label,
        "metadata": group.sample.metadata,
    }
