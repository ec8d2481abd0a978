"""Where raw segments lie and what lists them: the contract between what writes raw data and what reads it.

<lake>/raw/v1/<kind>/day=YYYY-MM-DD/job=<job_id>/<source_id>-<seq>.parquet
<lake>/raw/v1/manifest/day=YYYY-MM-DD/job=<job_id>/<source_id>.json
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from tracelake.schemas.storage import Storage, storage_of

RAW_VERSION = "v1"
EVENT_KINDS = ("kernel", "memop", "launch", "sync", "annotation", "operator", "sample", "counter")
KINDS = ("source", *EVENT_KINDS, "loss")
READ_AT_ONCE = 16
"""Small files read at a time: from a bucket each is mostly waiting."""


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


RAW_FOLDER = f"raw/{RAW_VERSION}"


def raw_root(lake: Path) -> Path:
    """The raw folder of a lake that is a folder."""
    return lake / RAW_FOLDER


def job_folder(job_id: str) -> str:
    """A job id as a folder name: `job=` and the id, percent-encoded."""
    return f"job={quote(job_id, safe='')}"


def manifest_path(day: str, job_id: str, source_id: str) -> str:
    return f"manifest/day={day}/{job_folder(job_id)}/{quote(source_id, safe='')}.json"


def manifest_keys(raw: Storage, job_id: str | None = None) -> list[str]:
    """Where the manifests of every source, or of one job's, lie below the raw folder."""
    days = raw.folders("manifest")
    jobs = [f"{day}/{job_folder(job_id)}" for day in days] if job_id else days
    return [file.key for folder in jobs for file in raw.files(folder) if _is_manifest(file.key)]


def _is_manifest(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name.endswith(".json") and not name.startswith(".")


def read_manifests(raw: Storage, job_id: str | None = None) -> Iterator[tuple[str, bytes, Manifest]]:
    """(key, text, manifest) of every source, or of one job's.

    Raises BadManifest naming the file where one cannot be read.
    """
    keys = manifest_keys(raw, job_id)
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        for key, text in zip(keys, pool.map(raw.read, keys), strict=True):
            try:
                yield key, text, Manifest.from_json(text.decode())
            except (ValueError, KeyError, TypeError) as error:
                where = raw.url(key)
                raise BadManifest(f"{where}: not a manifest ({error}); delete it and import the file again") from error


def manifests(root: Path | Storage, job_id: str | None = None) -> list[tuple[str, Manifest]]:
    """(path below the raw folder `root`, manifest) of every source, or of one job's. Raises BadManifest."""
    return [(key, manifest) for key, _, manifest in read_manifests(storage_of(root), job_id)]
