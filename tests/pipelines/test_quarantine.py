"""Quarantine keeps its place: the bytes and rows that an entry is about are found again."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tracelake.pipelines.intake import pending, windows
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.quarantine import entries, original, retry
from tracelake.recorder.segments import SourceWriter
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import raw_root

QUARANTINE, FILES = table("operations.quarantine"), table("operations.files")


def _entry(**given: Any) -> dict[str, Any]:
    return {"job_id": "j", "source_id": "s", "kind": "loss", "offset_bytes": None, "row_index": None, **given}


def test_the_bytes_of_a_stretch_are_read_from_the_input_packed_or_not(tmp_path: Path) -> None:
    text = b'[{"a": 1},\n\xff\xfe broken,\n{"b": 2}]'
    (tmp_path / "t.json").write_bytes(text)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text))
    for name in ("t.json", "t.json.gz"):
        entry = _entry(file=str(tmp_path / name), offset_bytes=11, length_bytes=9)
        assert original(Lake(tmp_path), entry) == r"\xff\xfe broken"
    gone = original(Lake(tmp_path), _entry(file="gone.json", offset_bytes=1, length_bytes=2))
    assert gone == "gone.json: cannot be read (No such file or directory)"
    assert original(Lake(tmp_path), _entry(file="x")) == "the entry names no stretch of bytes"


def test_the_row_of_an_event_is_read_from_raw_data(tmp_path: Path) -> None:
    writer = SourceWriter(raw_root(tmp_path), "2026-01-02", "j", "s")
    columns = {c.name: [2, 3] for c in table("raw.sync").columns if not c.nullable and c.type.value == "bigint"}
    writer.write("sync", pa.table({**columns, "event_id": [4, 5], "kind": ["device", "stream"]}))
    writer.close("complete", attempt=0)
    said = original(Lake(tmp_path), _entry(kind="sync", row_index=5, file="t.json"))
    assert said.startswith("sync/day=2026-01-02/job=j/s-00000.parquet: {")
    assert "'event_id': 5" in said
    assert "'kind': 'stream'" in said
    assert original(Lake(tmp_path), _entry(kind="sync", row_index=6, file="")) == "the raw data no longer holds the row"


def test_numbers_stay_under_filters_and_retry_hands_windows_to_the_next_run(
    spark: SparkSession, rows: Any, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    for job in ("a", "b", "c"):
        SourceWriter(raw_root(lake.root), "2026-01-02", job, f"s{job}").close("complete", attempt=0)
    ledger = [
        {
            "job_id": w.manifest.job_id,
            "source_id": w.manifest.source_id,
            "manifest_sha256": w.sha256,
            "status": "stored",
        }
        for w in windows(lake)
    ]
    lake.append(rows(FILES, *ledger), FILES)
    aside = [
        {"job_id": "a", "source_id": "sa", "reason": "zero_time", "run_id": "2"},
        {"job_id": "b", "source_id": "sb", "reason": "damaged", "run_id": "1"},
        {"job_id": "b", "source_id": "removed", "reason": "damaged", "run_id": "3"},
    ]
    lake.append(rows(QUARANTINE, *aside), QUARANTINE)
    listed = entries(lake, spark).select("number", "job_id").collect()
    assert [tuple(row) for row in listed] == [(1, "b"), (2, "a"), (3, "b")]
    assert [row["number"] for row in entries(lake, spark, reason="damaged").collect()] == [1, 3]
    assert pending(lake, spark).windows == []
    done = retry(lake, spark, "b")
    assert (done.windows, done.gone) == (1, 1)
    assert [w.manifest.job_id for w in pending(lake, spark).windows] == ["b"]
    assert retry(lake, spark).windows == 1, "b waits already"
    assert [w.manifest.job_id for w in pending(lake, spark).windows] == ["a", "b"]
