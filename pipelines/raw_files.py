"""Raw data as files: a job's taken away, and what that frees."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tracelake.pipelines.lake import Lake
from tracelake.schemas.manifest import job_folder, raw_root


@dataclass(frozen=True)
class Freed:
    """Files that left the disk."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Freed) -> Freed:
        return Freed(self.files + other.files, self.bytes + other.bytes)


def raw_folders(lake: Lake, job_id: str) -> list[Path]:
    """The folders that hold a job's raw data, those of manifests first."""
    folders = raw_root(lake.root).glob(f"*/day=*/{job_folder(job_id)}")
    return sorted(folders, key=lambda folder: (folder.parts[-3] != "manifest", folder))


def remove_raw(lake: Lake, job_id: str) -> Freed:
    """Remove a job's manifests, then its segments: where it stops, nothing lists a segment that is gone."""
    freed = Freed()
    for folder in raw_folders(lake, job_id):
        files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        shutil.rmtree(folder)
        freed += Freed(len(files), sum(files))
    return freed
