"""The options of each command as typed objects, which the commands pass to the functions that work.

A command imports this module when it runs: `nearworth --help` needs none of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, get_type_hints

import click

from nearworth.tables.load import TableOptions

Semivalue = Literal["shapley", "banzhaf", "loo", "composite"]
T = TypeVar("T")


def typed(options_class: type[T], given: dict[str, Any]) -> T:
    """What click parsed, as an object of a dataclass whose fields may be groups of options."""
    remaining = dict(given)
    options = _take(options_class, remaining)
    assert not remaining, f"{options_class.__name__} has no field for {sorted(remaining)}"
    return options


def _take(options_class: type[T], remaining: dict[str, Any]) -> T:
    """Take the fields of a dataclass, and of the groups in it, out of what remains."""
    values: dict[str, Any] = {}
    for name, field_type in get_type_hints(options_class).items():
        is_group = isinstance(field_type, type) and is_dataclass(field_type)
        values[name] = _take(field_type, remaining) if is_group else remaining.pop(name)
    return options_class(**values)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The parameters of `KNNShapley` but the task. Contradictions are refused at once."""

    n_neighbors: int
    metric: str
    utility: str
    semivalue: Semivalue
    search: str
    max_error: float | None
    max_memory: str | None
    n_jobs: int | None

    def __post_init__(self) -> None:
        if self.search == "faiss" and not find_spec("faiss"):
            raise click.UsageError(
                "--search faiss needs faiss, which is not installed: pip install 'nearworth[faiss]'"
            )
        if self.search in ("lsh", "faiss") and self.max_error is None:
            raise click.UsageError(
                f"--search {self.search} needs --max-error, which says how far to search."
            )

    def keywords(self) -> dict[str, Any]:
        """The options as keywords of `KNNShapley`, `audit_labels` and `scan`."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """What every command needs that reads data and computes something from them."""

    table: TableOptions
    model: ModelOptions
    dry_run: bool


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What every command needs that audits labels."""

    data: DataOptions
    with_models: bool
    groups: str | None
    checkpoint: str | None
    review: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str | None, ...]:
        """Files that no output may replace."""
        return *self.data.table.files, *self.review


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Which rows of an audit are suspects."""

    rule: str | None
    fraction: float | None
    max_fdr: float | None
    include_reviewed: bool


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """How rows are shown as images."""

    image_shape: str | None
    image_column: str | None
    image_root: str | None


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where results go, and whether a file there is replaced."""

    output: str
    overwrite: bool


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    data: DataOptions
    checkpoint: str | None
    cluster: str | None
    scratch: str | None
    write: OutputOptions
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class SuspectTableOptions:
    audit: AuditOptions
    selection: SelectionOptions
    write: OutputOptions
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    audit: AuditOptions
    selection: SelectionOptions
    images: ImageOptions
    write: OutputOptions
    show: bool
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    data: DataOptions
    groups: str | None
    images: ImageOptions
    write: OutputOptions
    show: bool
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class ReviewOptions:
    audit: AuditOptions
    images: ImageOptions
    write: OutputOptions
    number: int | None
    seed: int
    blind: bool


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    data: DataOptions
    groups: str | None
    baseline: str
    update: bool
    max_new_suspects: int
    max_new_duplicates: int
    max_new_leaks: int
    max_fdr: float | None
    form: str


@dataclass(frozen=True, kw_only=True)
class OwnersOptions:
    data: DataOptions
    owner: str
    budget: str | None
    negative: str
    analyst: bool
    write: OutputOptions
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class RetrievalOptions:
    run: str
    qrels: str
    n_neighbors: int
    semivalue: Semivalue
    write: OutputOptions
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class ApplyOptions:
    decisions: str
    train: str
    target: str | None
    keep: bool
    write: OutputOptions


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    table: TableOptions
    model: ModelOptions
    purpose: Literal["value", "audit"]


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    parts: tuple[str, ...]
    write: OutputOptions
