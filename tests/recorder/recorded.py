"""Runs small scripts under the recorder, as processes of their own, and reads what they left in the lake."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracelake.schemas.manifest import Manifest, manifests, raw_root

DEADLINE_SECONDS = 60.0
GPU_PREAMBLE = """
import ctypes, os, time
cupti = ctypes.CDLL(os.environ["FAKE_CUPTI"], mode=ctypes.RTLD_GLOBAL)
import tracelake
from tracelake.recorder import process
"""
"""A script that starts so makes GPU events with `cupti.fake_*`; see the fixture `gpu`."""


@dataclass
class Lake:
    """What lies in <folder>/raw/v1, by its manifests: what they do not list is not there."""

    folder: Path

    def manifests(self, job_id: str | None = None) -> list[Manifest]:
        found = [manifest for _, manifest in manifests(raw_root(self.folder), job_id)]
        return sorted(found, key=lambda manifest: manifest.source_id)

    def rows(self, kind: str, *, source_id: str | None = None) -> list[dict[str, Any]]:
        table = self.table(kind, source_id=source_id)
        return [] if table is None else table.to_pylist()

    def table(self, kind: str, *, source_id: str | None = None) -> pa.Table | None:
        """Every listed row of a kind. Reading checks that each listed segment is a whole file of its stated rows."""
        tables = []
        for manifest in self.manifests():
            for segment in manifest.segments:
                if segment.kind == kind and source_id in (None, manifest.source_id):
                    with pq.ParquetFile(raw_root(self.folder) / segment.path) as file:
                        tables.append(file.read())
                    assert tables[-1].num_rows == segment.rows
        return pa.concat_tables(tables) if tables else None

    def closing(self) -> list[dict[str, Any]]:
        """The closing row of each closed window, in order of their ids (which is the order of time)."""
        rows = [row for row in self.rows("source") if row["phase"] == "close"]
        return sorted(rows, key=lambda row: row["source_id"])

    def stray_files(self) -> list[Path]:
        """Files that were staged and never got their name."""
        return [path for path in self.folder.rglob("*") if path.is_file() and ".tmp" in path.name]


def environment(tmp_path: Path, **settings: object) -> dict[str, str]:
    """The environment of a recorded script; `settings` become TRACELAKE_ variables."""
    given = {"output": tmp_path / "lake", "spool": tmp_path / "spool", "job_id": "job", **settings}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE_")}
    return {**kept, **{f"TRACELAKE_{name.upper()}": str(value) for name, value in given.items()}}


def script(tmp_path: Path, text: str, name: str = "train.py") -> Path:
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return path


def start(tmp_path: Path, text: str, env: Mapping[str, str], *arguments: str, **popen: Any) -> subprocess.Popen[str]:
    """The script as a process; its output is text."""
    command = [sys.executable, str(script(tmp_path, text)), *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **popen}
    return subprocess.Popen(command, env=dict(env), cwd=tmp_path, **pipes)


def run(tmp_path: Path, text: str, env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script, to its end."""
    process = start(tmp_path, text, env, *arguments)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def wait_for(condition: Callable[[], Any], what: str, seconds: float = DEADLINE_SECONDS) -> Any:
    """The first true answer. Fails, naming what was waited for, when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")


def wait_until_delivered(tmp_path: Path) -> Lake:
    """The lake, once no sidecar has anything left to do: a spool goes when all of it is delivered."""
    spool = tmp_path / "spool"
    wait_for(lambda: not spool.exists() or not any(spool.iterdir()), f"{spool} to be emptied; it holds {_tree(spool)}")
    return Lake(tmp_path / "lake")


def _tree(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*")] if folder.exists() else []
