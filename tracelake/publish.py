"""`tracelake publish`, without the terminal: links and key figures to the trackers of the jobs."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelake import commands
from tracelake.commands import Progress, UserError
from tracelake.pages import reports_folder
from tracelake.reports.files import fleet_file, href, job_file
from tracelake.reports.publish.model import (
    BadTargetError,
    Delivery,
    DeliveryFailedError,
    NoSuchRunError,
    Target,
    delivery_of,
    digest,
)
from tracelake.schemas.storage import Folder, Storage
from tracelake.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIVE_UP_AFTER = 3
"""Jobs in a row that a target does not answer about; the others wait for the next run, and the night does not."""


@dataclass(frozen=True)
class Place:
    """Where pages are, if not in <lake>/reports, and under which address they are served, if not the settings'."""

    out: Path | None = None
    url: str | None = None


@dataclass
class Published:
    """What `publish` did. Pairs are of a job and why; a failed one has its target too."""

    delivered: dict[str, int] = field(default_factory=dict)
    """Jobs by target."""
    unchanged: int = 0
    nothing_to_do: int = 0
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def publish(
    settings: Settings,
    session: SparkSession | None = None,
    jobs: Sequence[str] | None = None,
    *,
    targets: Sequence[str] = (),
    place: Place = Place(),
    progress: Progress = lambda name, share: None,
) -> Published:
    """Deliver what is due of all jobs, or of those named; of these also what a tracker had no run for.

    A tracker that is down is in the result, and its jobs are due again. Raises UserError for targets that cannot work
    and for named jobs that the lake does not have.
    """
    from tracelake.pipelines import deliveries

    chosen = _targets(settings, targets)
    if not chosen:
        return Published()
    lake = commands.lake_of(settings)
    with nullcontext(session) if session else commands._session(settings, "publish") as spark:
        standing = deliveries.standing(lake, spark, jobs)
        if missing := sorted(set(jobs or ()) - {row["job_id"] for row in standing}):
            raise UserError(f"no job {missing[0]} with figures in {lake.name}; `tracelake jobs` lists those there are")
        work = Publisher(settings, chosen, place, deliveries.last_tries(lake, spark, jobs), is_asked=jobs is not None)
        try:
            for number, row in enumerate(standing):
                progress(row["job_id"], number / len(standing))
                work.one(row)
        finally:
            # What was delivered is known, whatever stopped the rest.
            deliveries.record(lake, spark, work.tries)
    return work.done


def _targets(settings: Settings, names: Sequence[str]) -> list[Target]:
    from tracelake.reports.publish.targets import targets

    try:
        return targets(settings.publish, names)
    except BadTargetError as error:
        raise UserError(str(error)) from error


class Publisher:
    """One run: jobs one after another, each to every target."""

    def __init__(
        self,
        settings: Settings,
        targets: Sequence[Target],
        place: Place,
        before: Mapping[tuple[str, str], Mapping[str, Any]],
        *,
        is_asked: bool,
    ) -> None:
        self.targets, self.before, self.is_asked = targets, before, is_asked
        self.folder = reports_folder(settings, place.out)
        self.base_url = place.url or settings.publish.base_url
        self.pages = {page.key for page in self.folder.files()}
        self.silent = dict.fromkeys((target.name for target in targets), 0)
        self.tries: list[dict[str, Any]] = []
        self.done = Published({target.name: 0 for target in targets})

    def one(self, row: Mapping[str, Any]) -> None:
        job_id, page = row["job_id"], job_file(row["job_id"])
        if why := _left_out(row, page in self.pages):
            self.done.left_out.append((job_id, why))
            return
        taken = self.folder.read(page) if any(target.takes_page for target in self.targets) else None
        told = delivery_of(row, self._url(page), self._fleet_url(row), taken)
        for target in self.targets:
            self._deliver(target, told, row["run_id"])

    def _url(self, file: str) -> str:
        return page_url(self.folder, file, self.base_url)

    def _fleet_url(self, row: Mapping[str, Any]) -> str | None:
        """The fleet of the job's last day, where that page is there."""
        at_ns = row["ended_ns"] or row["started_ns"]
        if at_ns is None:
            return None
        file = fleet_file((dt.datetime(1970, 1, 1) + dt.timedelta(seconds=at_ns // 10**9)).date().isoformat())
        return self._url(file) if file in self.pages else None

    def _deliver(self, target: Target, told: Delivery, run_id: str) -> None:
        reference = target.reference(told)
        content = digest(told, target, reference)
        before = self.before.get((told.job_id, target.name), {})
        settled = ("delivered",) if self.is_asked and reference else ("delivered", "nothing_to_do")
        if before.get("digest") == content and before.get("state") in settled:
            self.done.unchanged += 1
            return
        state, reason = self._try(target, told, reference)
        now_ns, was_tried = time.time_ns(), reference is not None
        so_far = 0 if before.get("state") == "delivered" else before.get("try_count", 0)
        self.tries.append(
            {
                "job_id": told.job_id, "attempt": told.attempt, "target": target.name, "reference": reference,
                "url": told.page_url, "digest": content, "state": state, "reason": reason,
                "try_count": so_far + was_tried, "tried_ns": now_ns,
                "delivered_ns": now_ns if state == "delivered" else before.get("delivered_ns"), "run_id": run_id,
            }
        )  # fmt: skip

    def _try(self, target: Target, told: Delivery, reference: str | None) -> tuple[str, str | None]:
        """(state, reason), counted."""
        if reference is None:
            self.done.nothing_to_do += 1
            return "nothing_to_do", target.lacking
        try:
            if self.silent[target.name] >= _GIVE_UP_AFTER:
                raise DeliveryFailedError("not tried: the target did not answer about the jobs before", is_down=True)
            target.send(told, reference)
        except NoSuchRunError as error:
            self.done.nothing_to_do += 1
            return "nothing_to_do", str(error)
        except DeliveryFailedError as error:
            self.silent[target.name] = self.silent[target.name] + 1 if error.is_down else 0
            self.done.failed.append((told.job_id, target.name, str(error)))
            return "failed", str(error)
        self.silent[target.name] = 0
        self.done.delivered[target.name] += 1
        return "delivered", None


def _left_out(row: Mapping[str, Any], has_page: bool) -> str | None:
    """Why a job is not published, in words."""
    if row["is_publishable"] is None:
        return "it was not checked yet; `tracelake run` checks what it takes in"
    if not row["is_publishable"]:
        return f"checks stop it: {'; '.join(row['reasons'])}"
    return None if has_page else "it has no page yet; `tracelake report` makes it"


def page_url(folder: Storage, file: str, base_url: str) -> str:
    """The address of a page: below the one that serves the folder, else of the file itself.

    >>> page_url(Folder(Path("/lake/reports")), "job-a%2Fb.html", "")
    'file:///lake/reports/job-a%252Fb.html'
    """
    if base_url:
        return f"{base_url.rstrip('/')}/{href(file)}"
    return (folder.root.absolute() / file).as_uri() if isinstance(folder, Folder) else folder.url(file)
