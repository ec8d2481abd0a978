"""What the fleet page of a day needs, read from small aggregate rows; each list is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracelake.reports import read_fleet as read
from tracelake.reports.fleet_rows import CauseTime, Change, DayTime, GroupTime, Overview, Saving, SuspectNode
from tracelake.reports.goodput_rows import FleetGoodput, Goodput
from tracelake.reports.sql import Query


class NoDayError(LookupError):
    """The lake has no device time on that day."""


@dataclass(frozen=True, slots=True)
class FleetData:
    """Everything on the page, as plain rows."""

    day: str
    overview: Overview
    causes: tuple[CauseTime, ...]
    savings: tuple[Saving, ...]
    changes: tuple[Change, ...]
    suspects: tuple[SuspectNode, ...]
    days: tuple[DayTime, ...]
    groups: Mapping[str, tuple[GroupTime, ...]]
    goodput: tuple[FleetGoodput, ...] = ()
    lowest: tuple[Goodput, ...] = ()

    @property
    def total_ns(self) -> int:
        return sum(each.device_ns for each in self.causes)

    def time(self, *causes: str) -> int:
        return sum(each.device_ns for each in self.causes if each.cause in causes)


def fleet_data(query: Query, day: str | None = None) -> FleetData:
    """Read a day's page; the last day with device time unless one is named.

    Raises NoDayError, with one clear line, where there is none.
    """
    chosen = day or read.latest_day(query)
    causes = read.causes(query, chosen) if chosen else ()
    if not chosen or not causes:
        raise NoDayError(
            f"no device time on {chosen}" if chosen else "no device time in the lake; run the pipeline first"
        )
    return FleetData(
        day=chosen,
        overview=read.overview(query, chosen),
        causes=causes,
        savings=read.savings(query, chosen),
        changes=read.changes(query, chosen),
        suspects=read.suspects(query, chosen),
        days=read.days(query, chosen),
        groups={by: read.groups(query, chosen, by) for by in read.GROUPS},
        goodput=read.goodput(query, chosen),
        lowest=read.lowest_goodput(query, chosen),
    )
