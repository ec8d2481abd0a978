"""The ledger of windows forgets no row."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tracelake.pipelines.intake import Window
from tracelake.pipelines.lake import Lake
from tracelake.pipelines.ledger import file_rows
from tracelake.schemas.manifest import Manifest


def test_a_window_whose_source_row_is_lost_is_quarantined_with_all_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = {"read": 10, "stored": 6, "quarantined": 1, "deduplicated": 1, "skipped": 2}
    manifest = Manifest("j", "s", "2026-11-29", 0, "complete", True, (), rows=counts)
    row = file_rows(Lake(tmp_path), spark, [Window(manifest, "manifest/x.json", "0")], "run")[0]
    assert row["status"] == "quarantined"
    assert (row["rows_read"], row["rows_stored"], row["rows_quarantined"]) == (10, 0, 7)
    assert row["rows_read"] == sum(row[f"rows_{n}"] for n in ("stored", "quarantined", "deduplicated", "skipped"))
