"""The queries behind the fleet page, each with its bound. They need the lake's views."""

from __future__ import annotations

from tracelake.reports.fleet_rows import CauseTime, Change, DayTime, GroupTime, Overview, Saving, SuspectNode
from tracelake.reports.goodput_rows import FleetGoodput, Goodput
from tracelake.reports.sql import Query, fetch, literal, names

DAYS = 30
MAX_SAVINGS = 10
MAX_CHANGES = 20
MAX_NODES = 20
MAX_GOODPUTS = 10
MAX_REASONS = 10
MAX_GROUPS = 12
MAX_CAUSES = 40
GROUPS = ("project", "user", "family", "instance_type")


def latest_day(query: Query) -> str | None:
    """The last day with device time, as an ISO date; None in a lake without any."""
    rows = query("SELECT CAST(max(day) AS STRING) AS day FROM fleet_daily WHERE cause <> 'not_recorded'")
    day: str | None = rows[0]["day"] if rows else None
    return day


def overview(query: Query, day: str) -> Overview:
    mine = f"SELECT DISTINCT job_id, attempt, node_id FROM fleet_daily WHERE day = {_date(day)}"
    found = "SELECT DISTINCT job_id FROM findings WHERE severity = 'warn'"
    return fetch(
        query,
        Overview,
        "SELECT count(DISTINCT m.job_id) AS job_count, count(DISTINCT m.node_id) AS node_count, "
        f"count(DISTINCT f.job_id) AS found_count FROM ({mine}) m LEFT JOIN ({found}) f ON f.job_id = m.job_id",
    )[0]


def causes(query: Query, day: str) -> tuple[CauseTime, ...]:
    return fetch(
        query,
        CauseTime,
        "SELECT cause, sum(device_ns) AS device_ns, sum(cost) AS cost, sum(energy_kwh) AS energy_kwh FROM fleet_daily "
        f"WHERE day = {_date(day)} GROUP BY cause ORDER BY device_ns DESC LIMIT {MAX_CAUSES}",
    )


def groups(query: Query, day: str, by: str) -> tuple[GroupTime, ...]:
    """The groups with most time, by cause."""
    here = f"FROM fleet_daily WHERE day = {_date(day)}"
    most = (
        f"SELECT `{by}` AS name, sum(device_ns) AS ns {here} GROUP BY `{by}` ORDER BY ns DESC, name LIMIT {MAX_GROUPS}"
    )
    return fetch(
        query,
        GroupTime,
        f"WITH most AS ({most}) SELECT m.name, f.cause, sum(f.device_ns) AS device_ns, any_value(m.ns) AS ns "
        f"FROM most m JOIN (SELECT `{by}` AS name, cause, device_ns {here}) f ON f.name <=> m.name "
        f"GROUP BY m.name, f.cause ORDER BY ns DESC, m.name, f.cause LIMIT {MAX_GROUPS * MAX_CAUSES}",
    )


def days(query: Query, day: str) -> tuple[DayTime, ...]:
    """The days up to this one."""
    return fetch(
        query,
        DayTime,
        "SELECT CAST(day AS STRING) AS day, cause, sum(device_ns) AS device_ns FROM fleet_daily "
        f"WHERE day BETWEEN date_sub({_date(day)}, {DAYS - 1}) AND {_date(day)} GROUP BY day, cause "
        f"ORDER BY day, cause LIMIT {DAYS * MAX_CAUSES}",
    )


def savings(query: Query, day: str) -> tuple[Saving, ...]:
    """Findings of jobs with time in the day, most device time at stake first."""
    mine = f"SELECT DISTINCT job_id, attempt, project, family, instance_type FROM fleet_daily WHERE day = {_date(day)}"
    told = ("project", "family", "instance_type")
    return fetch(
        query,
        Saving,
        f"SELECT m.project, m.family, m.instance_type, {names(Saving, 'f.', without=told)} FROM findings f "
        f"JOIN ({mine}) m ON m.job_id = f.job_id AND m.attempt = f.attempt WHERE f.lost_ns IS NOT NULL "
        f"ORDER BY f.lost_ns DESC, f.job_id LIMIT {MAX_SAVINGS}",
    )


def changes(query: Query, day: str) -> tuple[Change, ...]:
    """Jobs that began in the last week and differ from those of their family, the largest change first."""
    end = f"CAST(date_add({_date(day)}, 1) AS TIMESTAMP)"
    return fetch(
        query,
        Change,
        f"SELECT {names(Change)} FROM v_regressions WHERE verdict IN ('REGRESSION', 'IMPROVEMENT', 'MIXED') "
        f"AND started_utc < {end} AND started_utc >= {end} - INTERVAL 7 DAYS "
        f"ORDER BY abs(change_percent) DESC, job_id LIMIT {MAX_CHANGES}",
    )


def suspects(query: Query, day: str) -> tuple[SuspectNode, ...]:
    """Nodes that were guilty again in the last week."""
    end = f"CAST(date_add({_date(day)}, 1) AS TIMESTAMP)"
    return fetch(
        query,
        SuspectNode,
        f"SELECT {names(SuspectNode)} FROM v_suspect_nodes WHERE last_utc >= {end} - INTERVAL 7 DAYS "
        f"ORDER BY lost_hours DESC NULLS LAST, node_id LIMIT {MAX_NODES}",
    )


def goodput(query: Query, day: str) -> tuple[FleetGoodput, ...]:
    """Jobs with time in the day, all attempts of each, together by the reason why they have no goodput."""
    sums = ", ".join(f"sum({c}) AS {c}" for c in ("restart_count", "goodput_ns", "productive_ns"))
    return fetch(
        query,
        FleetGoodput,
        f"SELECT reason, count(*) AS job_count, sum(allocated_ns - withheld_ns - not_recorded_ns) AS known_ns, {sums} "
        f"FROM v_goodput WHERE {_in_day(day)} GROUP BY reason ORDER BY job_count DESC, reason LIMIT {MAX_REASONS}",
    )


def lowest_goodput(query: Query, day: str) -> tuple[Goodput, ...]:
    return fetch(
        query,
        Goodput,
        f"SELECT {names(Goodput)} FROM v_goodput WHERE {_in_day(day)} AND goodput_ratio IS NOT NULL "
        f"ORDER BY goodput_ratio, job_id LIMIT {MAX_GOODPUTS}",
    )


def _in_day(day: str) -> str:
    return f"job_id IN (SELECT job_id FROM fleet_daily WHERE day = {_date(day)})"


def _date(day: str) -> str:
    return f"CAST({literal(day)} AS DATE)"
