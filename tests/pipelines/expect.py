"""Stories for the tests of tables: the rows that a job reads, and what must stand in its table by the definitions.

All stories of a table run in one Spark job, each as a job of its own. Each is told twice: as written, with times near
0, and as a twin with its rows in reverse order and all times shifted to a real epoch. Neither may change a duration.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tracelake.pipelines.lake import conform
from tracelake.pipelines.parameters import Parameters
from tracelake.schemas.catalog import table
from tracelake.schemas.model import Table

Row = dict[str, Any]
Rows = Callable[..., DataFrame]

SHIFT_NS = 1_700_000_000_123_456_789
_TWIN = " (shifted and shuffled)"
_INSTANTS = frozenset(
    {
        "start_ns", "end_ns", "at_ns", "effective_end_ns", "first_event_start_ns", "window_start_ns", "window_end_ns",
        "host_start_ns", "host_end_ns", "bucket_start_ns", "created_ns", "started_ns", "ended_ns", "origin_ns",
        "starts_ns",
    }
)  # fmt: skip
_DEFAULTS: dict[str, Row] = {
    "raw.source": {"phase": "close", "devices": "[]", "status": "complete"},
    "normalized.sources": {"status": "complete"},
    "raw.annotation": {"side": "host", "thread_id": 1},
    "normalized.annotations": {"side": "host", "thread_id": 1, "is_closed": True},
    "normalized.ranges": {"thread_id": 1, "is_closed": True},
}


# For tables of a hundred rows, compiling the plan costs more than running it.
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def small_data(spark: SparkSession) -> Iterator[None]:
    """Spark interprets its plans instead of compiling them."""
    before = {key: str(spark.conf.get(key)) for key in _SMALL}
    for key, value in _SMALL.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


@dataclass(frozen=True)
class Story:
    """`given`: rows by the short name of their table. `expect`: the table's rows in order of its key, the columns
    that matter."""

    given: Mapping[str, Sequence[Row]]
    expect: Sequence[Row]


def story(expect: Sequence[Row], **given: Sequence[Row]) -> Story:
    return Story(given, expect)


def shifted(row: Row) -> Row:
    """The row with its instants later by SHIFT_NS; durations stay."""
    return {k: _later(v) if k in _INSTANTS and v is not None else v for k, v in row.items()}


def _later(value: Any) -> Any:
    return [each + SHIFT_NS for each in value] if isinstance(value, list) else value + SHIFT_NS


class Told:
    """The table that a job makes of all stories, read back by story."""

    def __init__(
        self, rows: Rows, name: str, stories: Mapping[str, Story], parameters: Parameters | None = None
    ) -> None:
        self._stories = stories
        self._table = table(name)
        job = getattr(importlib.import_module(f"tracelake.pipelines.{name}"), self._table.short_name)
        frames = [self._frame(rows, table(read)) for read in self._table.reads]
        takes = "parameters" in inspect.signature(job).parameters
        self._rows: dict[str, list[Row]] = {}
        with small_data(frames[0].sparkSession):
            made = conform(job(*frames, **({"parameters": parameters} if takes and parameters else {})), self._table)
            for row in made.collect():
                self._rows.setdefault(row["job_id"], []).append(row.asDict(recursive=True))

    def got(self, title: str) -> dict[str, list[Row]]:
        """What the job made of the story and of its twin, the columns that `want` names."""
        return {name: self._seen(title + name, expect) for name, expect in self.want(title).items()}

    def want(self, title: str) -> dict[str, list[Row]]:
        expect = self._stories[title].expect
        return {"": list(expect), _TWIN: [shifted(row) for row in expect]}

    def _seen(self, job_id: str, expect: Sequence[Row]) -> list[Row]:
        """The story's rows with the columns that it expects; keys are unique and nothing required is NULL."""
        key = [name for name in self._table.key if name != "job_id"]
        got = sorted(self._rows.get(job_id, []), key=lambda row: [_sortable(row[name]) for name in key])
        assert len({tuple(row[name] for name in key) for row in got}) == len(got), "the key is not unique"
        empty = {c.name for c in self._table.columns for row in got if row[c.name] is None and not c.nullable}
        assert not empty, f"NULL in {empty}"
        if len(got) != len(expect):
            wanted = key if not expect else [*expect[0]]
            return [{name: row[name] for name in wanted} for row in got]
        return [{name: row[name] for name in want} for row, want in zip(got, expect, strict=True)]

    def _frame(self, rows: Rows, read: Table) -> DataFrame:
        given: list[Row] = []
        for title, told in self._stories.items():
            mine = [_complete(read, title, row) for row in _given(told, read)]
            given += mine
            given += [shifted(row) | {"job_id": title + _TWIN} for row in reversed(mine)]
        return rows(read, *given)


def _given(told: Story, read: Table) -> Sequence[Row]:
    """The rows of one table. Every story has a window, if only to say where its events lie."""
    return told.given.get(read.short_name, [{}] if read.name == "raw.source" else [])


def _complete(read: Table, title: str, row: Row) -> Row:
    where = {"source_id": "s"} if "source_id" in read.column_names else {}
    return {"job_id": title, **where, **_DEFAULTS.get(read.name, {}), **row}


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)
