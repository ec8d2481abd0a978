"""Upkeep commands, without the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracelake import commands
from tracelake.commands import Progress, UserError
from tracelake.settings import Settings

if TYPE_CHECKING:
    from tracelake.pipelines.deletion import Deleted
    from tracelake.pipelines.lake import Lake
    from tracelake.pipelines.quarantine import Retried
    from tracelake.pipelines.upkeep import Maintained

LISTED = (
    "number", "job_id", "kind", "reason", "rows_count", "file", "offset_bytes", "length_bytes", "row_index", "remedy",
)  # fmt: skip


def _lake(settings: Settings) -> Lake:
    """Raises UserError where there is none."""
    lake = commands.lake_of(settings)
    if not lake.storage.holds(""):
        raise UserError(f"{lake.name}: no lake here; import traces first, or give --lake")
    return lake


def maintain(settings: Settings, progress: Progress) -> Maintained:
    """Retention, compaction, VACUUM. Raises UserError for settings that make no sense."""
    from tracelake.pipelines import upkeep

    try:
        retention = upkeep.Retention.from_mapping(settings.retention)
    except ValueError as error:
        raise UserError(f"[retention]: {error}") from error
    lake = _lake(settings)
    with commands._session(settings, "maintain") as session:
        return upkeep.maintain(lake, session, retention, progress=progress)


def delete_job(settings: Settings, job_id: str, *, keep_files: bool, progress: Progress) -> Deleted:
    """Remove a job everywhere. Raises UserError where the lake knows no such job."""
    from tracelake.pipelines import deletion

    lake = _lake(settings)
    with commands._session(settings, "delete-job") as session:
        if not deletion.is_known(lake, session, job_id):
            raise UserError(f"no job {job_id} in {lake.name}; `tracelake jobs` lists those that are there")
        return deletion.delete_job(lake, session, job_id, keep_files=keep_files, progress=progress)


def quarantine_list(
    settings: Settings, job_id: str | None, reason: str | None, limit: int
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """(column names, rows) of what was set aside."""
    from tracelake.pipelines import quarantine

    lake = _lake(settings)
    with commands._session(settings, "quarantine") as session:
        found = quarantine.entries(lake, session, job_id=job_id, reason=reason).select(*LISTED).limit(limit)
        return list(LISTED), [tuple(row) for row in found.collect()]


def quarantine_show(settings: Settings, number: int | None, file: str | None, limit: int) -> list[dict[str, Any]]:
    """Entries in full, with `original`: the bytes or the row themselves. Raises UserError where there is none."""
    from tracelake.pipelines import quarantine
    from tracelake.pipelines.lake import one_of

    if (number is None) == (file is None):
        raise UserError("give the number of an entry (`tracelake quarantine list` shows it) or --file")
    lake = _lake(settings)
    which = f"number = {number}" if file is None else one_of("file", [file])
    with commands._session(settings, "quarantine") as session:
        entries = quarantine.entries(lake, session).filter(which).limit(limit)
        found = [row.asDict() for row in entries.collect()]
    if not found:
        raise UserError(f"no entry {number or file}; `tracelake quarantine list` shows those that are there")
    return [{**entry, "original": quarantine.original(lake, entry)} for entry in found]


def quarantine_retry(settings: Settings, job_id: str | None) -> Retried:
    """Hand quarantined windows to the next run."""
    from tracelake.pipelines import quarantine

    lake = _lake(settings)
    with commands._session(settings, "quarantine") as session:
        return quarantine.retry(lake, session, job_id)
