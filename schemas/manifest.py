"""Where raw segments lie and what lists them: the contract between what writes raw data and what reads it.

<lake>/raw/v1/<kind>/day=YYYY-MM-DD/job=<job_id>/<source_id>-<seq>.parquet
<lake>/raw/v1/manifest/day=YYYY-MM-DD/job=<job_id>/<source_id>.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

RAW_VERSION = "v1"
EVENT_KINDS = ("kernel", "memop", "launch", "sync", "annotation", "operator", "sample", "counter")
KINDS = ("source", *EVENT_KINDS, "loss")


class BadManifest(ValueError):
    """A manifest cannot be read; the text names the file and the remedy."""


@dataclass(frozen=True)
class Segment:
    """One Parquet file of a source; `path` is relative to the raw folder."""

    kind: str
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """Everything a reader needs to find and judge one source. Times and counts are exact."""

    job_id: str
    source_id: str
    day: str
    attempt: int
    status: str
    closed: bool
    segments: tuple[Segment, ...]
    rows: Mapping[str, int] = field(default_factory=dict)
    file: str | None = None
    file_sha256: str | None = None
    file_bytes: int | None = None
    read_bytes: int | None = None
    prefix_hashes: Mapping[str, str] = field(default_factory=dict)
    supersedes: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Raises ValueError, KeyError or TypeError where the text is no manifest."""
        raw = json.loads(text)
        raw["segments"] = tuple(Segment(**segment) for segment in raw["segments"])
        raw["supersedes"] = tuple(raw["supersedes"])
        return Manifest(**raw)


def raw_root(lake: Path) -> Path:
    return lake / "raw" / RAW_VERSION


def job_folder(job_id: str) -> str:
    """A job id as a folder name: `job=` and the id, percent-encoded."""
    return f"job={quote(job_id, safe='')}"


def manifest_path(day: str, job_id: str, source_id: str) -> str:
    return f"manifest/day={day}/{job_folder(job_id)}/{quote(source_id, safe='')}.json"


def manifests(root: Path, job_id: str | None = None) -> list[tuple[str, Manifest]]:
    """(path relative to `root`, manifest) of every source, or of one job's.

    Raises BadManifest naming the file where one cannot be read.
    """
    pattern = f"manifest/day=*/{job_folder(job_id) if job_id else 'job=*'}/*.json"
    found = []
    for path in sorted(root.glob(pattern)):
        try:
            found.append((str(path.relative_to(root)), Manifest.from_json(path.read_text())))
        except (ValueError, KeyError, TypeError) as error:
            raise BadManifest(f"{path}: not a manifest ({error}); delete it and import the file again") from error
    return found
