"""What is told of a job to the experiment trackers, made from rows of the lake; and what a tracker is to us."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tracelake.reports.names import visible

RUNNING = ("in_progress", "stopping")
_NS_PER_HOUR, _NS_PER_MS = 3.6e12, 1e6
_LONGEST_REASON = 300
_RATIOS = ("gpu_active_ratio", "kernel_busy_ratio", "comm_overlap_ratio", "tensor_core_ratio", "mfu_ratio")
_COUNTS = ("step_count", "slow_step_count", "straggler_count", "finding_count")

IDS = (
    "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI",
    "WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_GROUP", "WANDB_NAME",
    "COMET_EXPERIMENT_KEY", "COMET_WORKSPACE", "COMET_PROJECT_NAME",
    "NEPTUNE_PROJECT", "NEPTUNE_RUN_ID", "NEPTUNE_CUSTOM_RUN_ID", "CLEARML_TASK_ID",
    "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION",
    "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "POD_NAME", "POD_NAMESPACE", "POD_UID", "JOB_NAME", "TRAINING_JOB_NAME", "TRAINING_JOB_ARN",
)  # fmt: skip
"""Tags that say which job this is elsewhere, of those that the recorder captures. No other tag leaves the lake."""


class BadTargetError(ValueError):
    """A target cannot work as it is set up; the text says what to set."""


class NoSuchRunError(LookupError):
    """The tracker answered, and has no such run."""


class DeliveryFailedError(RuntimeError):
    """A target did not take a delivery; the text says why, in one line without secrets."""

    def __init__(self, reason: object, *, is_down: bool = False) -> None:
        """`is_down`: the target did not answer at all, and would answer the next one no better."""
        super().__init__(bounded_line(reason))
        self.is_down = is_down


@dataclass(frozen=True, slots=True)
class Found:
    """A finding of the job's page."""

    title: str
    severity: str
    gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One job as its latest attempt stands. `figures` that are not known are None."""

    job_id: str
    attempt: int
    state: str
    status: str
    page_url: str
    fleet_url: str | None
    project: str | None
    user: str | None
    family: str | None
    cloud_job_id: str | None
    figures: Mapping[str, float | None]
    findings: tuple[Found, ...]
    ids: Mapping[str, str]
    page: bytes | None = None
    """The page itself, for targets that take it."""

    @property
    def is_running(self) -> bool:
        """Whether the job goes on, so that its figures are of a part of it."""
        return self.status == "running" or self.state in RUNNING

    @property
    def word(self) -> str:
        """One word for how it stands."""
        return "running" if self.is_running else self.state


class Target(Protocol):
    """Where links and figures go."""

    name: str
    place: str
    """Where exactly, for the digest; it may hold secrets and is never shown."""
    lacking: str
    """Why a job has nothing there, in words."""
    takes_page: bool

    def reference(self, delivery: Delivery) -> str | None:
        """Which run of the tracker the job is; None where it has none there."""

    def send(self, delivery: Delivery, reference: str) -> None:
        """Put it there; a second time changes nothing. Raises NoSuchRunError, DeliveryFailedError."""


def delivery_of(row: Mapping[str, Any], page_url: str, fleet_url: str | None, page: bytes | None = None) -> Delivery:
    """From a row of pipelines/deliveries.py."""
    return Delivery(
        page_url=page_url, fleet_url=fleet_url, figures=figures(row), ids=known_ids(row["tags"] or {}), page=page,
        findings=tuple(Found(f["title"], f["severity"], _scaled(f["lost_ns"], _NS_PER_HOUR)) for f in row["findings"]),
        **{name: row[name] for name in ("job_id", "attempt", "state", "status")},
        **{name: row[name] for name in ("project", "user", "family", "cloud_job_id")},
    )  # fmt: skip


def figures(row: Mapping[str, Any]) -> dict[str, float | None]:
    """Key figures, in units that people read in a tracker's tables: hours and milliseconds."""
    whole = row["device_time_ns"]
    return {
        **{name: row[name] for name in _RATIOS},
        "exposed_comm_ratio": _scaled(row["exposed_comm_ns"], whole),
        "idle_ratio": _scaled(row["idle_ns"], whole),
        "gpu_hours": _scaled(whole, _NS_PER_HOUR),
        "step_median_ms": _scaled(row["step_median_ns"], _NS_PER_MS),
        **{name: None if row[name] is None else float(row[name]) for name in _COUNTS},
    }


def _scaled(value: int | None, unit: float | None) -> float | None:
    return None if value is None or not unit else value / unit


def known_ids(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags of IDS. `mlflow.run_id` is MLFLOW_RUN_ID too; where both are there, the recorder's spelling wins."""
    named = {name.upper().replace(".", "_"): value for name, value in sorted(tags.items())}
    return {name: tags.get(name, named.get(name, "")) for name in IDS if tags.get(name, named.get(name))}


def digest(delivery: Delivery, target: Target, reference: str | None) -> str:
    """Of all that is delivered, and where to."""
    said = {**asdict(delivery), "page": hashlib.sha256(delivery.page or b"").hexdigest()}
    text = json.dumps([target.name, target.place, reference, said], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def bounded_line(text: object, limit: int = _LONGEST_REASON) -> str:
    """One line of bounded length, without signs that hide or reorder others.

    >>> bounded_line("one\\n two", 5)
    'one …'
    """
    line = visible(" ".join(str(text).split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


_NOTE = re.compile(r"⟨tracelake: [^⟨⟩]*⟩")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#|!~$&])")
_TOLD_FINDINGS, _TITLE = 3, 120


def note(delivery: Delivery) -> str:
    """A phrase of Markdown for a run's description, in brackets of its own, by which it is found again."""
    parts = [f"[report]({delivery.page_url})", delivery.word]
    for each in delivery.findings[:_TOLD_FINDINGS]:
        cost = "" if each.gpu_hours is None else f" ({each.gpu_hours:.3g} GPU-hours)"
        parts.append(f"{_plain(each.title)}{cost}")
    if delivery.fleet_url:
        parts.append(f"[fleet]({delivery.fleet_url})")
    return f"⟨tracelake: {' · '.join(parts)}⟩"


def _plain(text: str) -> str:
    line = bounded_line(text, _TITLE).replace("⟨", "<").replace("⟩", ">")
    return _MARKDOWN.sub(r"\\\1", line)


def noted(text: str | None, own: str) -> str:
    """A description with our phrase in place of the one before, else after it; all else stays as the user wrote it.

    >>> noted("first try", "⟨tracelake: a⟩"), noted("x ⟨tracelake: a⟩ y", "⟨tracelake: b⟩")
    ('first try\\n\\n⟨tracelake: a⟩', 'x ⟨tracelake: b⟩ y')
    """
    if not text or not text.strip():
        return own
    if _NOTE.search(text):
        return _NOTE.sub(lambda _: own, text, count=1)
    return f"{text}\n\n{own}"
