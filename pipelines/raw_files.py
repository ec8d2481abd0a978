"""Raw data as files: a job's taken away, and what that frees."""

from __future__ import annotations

from dataclasses import dataclass

from tracelake.pipelines.lake import Lake
from tracelake.schemas.manifest import job_folder


@dataclass(frozen=True)
class Freed:
    """Files that are gone."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Freed) -> Freed:
        return Freed(self.files + other.files, self.bytes + other.bytes)


def raw_folders(lake: Lake, job_id: str) -> list[str]:
    """The folders below raw data that hold a job's, those of manifests first."""
    days = [day for kind in lake.raw.folders() for day in lake.raw.folders(kind)]
    found = [f"{day}/{job_folder(job_id)}" for day in days if lake.raw.holds(f"{day}/{job_folder(job_id)}")]
    return sorted(found, key=lambda folder: (not folder.startswith("manifest/"), folder))


def remove_raw(lake: Lake, job_id: str) -> Freed:
    """Remove a job's manifests, then its segments: where it stops, nothing lists a segment that is gone."""
    freed = Freed()
    for folder in raw_folders(lake, job_id):
        files = list(lake.raw.files(folder))
        lake.raw.delete(file.key for file in files)
        freed += Freed(len(files), sum(file.bytes for file in files))
    return freed
