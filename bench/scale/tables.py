"""What a run left in the lake, read without Spark: bytes and files per table, and whether the figures agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from bench.scale.limit import QUERIES
from tracelake.schemas.catalog import tables

_RENAMED = {"step": "step_occurrence"}
_ONLY = {"annotation_stats": "side = 'host'"}


def sizes(lake: Path) -> dict[str, dict[str, int]]:
    """Files, bytes and rows of the newest version of every written table."""
    found = {}
    for name, declared in tables().items():
        path = lake / "tables" / declared.layer / declared.short_name
        if (path / "_delta_log").is_dir():
            files = pa.table(DeltaTable(str(path)).get_add_actions(flatten=True)).to_pylist()
            found[name] = {
                "files": len(files),
                "bytes": sum(file["size_bytes"] for file in files),
                "rows": sum(file["num_records"] or 0 for file in files),
            }
    return found


def differing(lake: Path, db: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Per table: rows that only one of DuckDB (`limit.compute`) and the pipeline has; equal tables are left out."""
    found = {}
    for name in QUERIES:
        kept = DeltaTable(str(lake / "tables" / "aggregates" / name)).to_pyarrow_table()
        db.register("kept", kept)
        mine = [row[0] for row in db.execute(f"DESCRIBE {name}").fetchall()]
        theirs = ", ".join(_RENAMED.get(column, column) for column in mine)
        ours, stored = (
            f"SELECT {', '.join(mine)} FROM {name}",
            f"SELECT {theirs} FROM kept WHERE {_ONLY.get(name, 'true')}",
        )
        counted: Any = db.execute(
            f"SELECT count(*) FROM (({ours} EXCEPT ALL {stored}) UNION ALL ({stored} EXCEPT ALL {ours}))"
        ).fetchall()
        db.unregister("kept")
        if counted[0][0]:
            found[name] = int(counted[0][0])
    return found
