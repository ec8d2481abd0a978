"""One list of all events of a stretch, on aligned clocks, as SQL."""

from __future__ import annotations

from tracelake.reports.timeline.tree import DEVICE_KINDS

_DEVICE = ", ".join(f"'{kind}'" for kind in DEVICE_KINDS)
TRACK = (
    f"source_id, CASE WHEN kind IN ({_DEVICE}) THEN 'device' WHEN kind IN ('launch', 'sync') THEN 'launches' "
    "ELSE 'annotations' END, device_id, stream_id, thread_id"
)
"""What events of one track share."""

_NONE = {
    "device_id": "STRING", "stream_id": "BIGINT", "thread_id": "BIGINT", "short_name": "STRING", "detail": "STRING",
    "launch_id": "BIGINT", "depth": "INT", "collective": "STRING", "bytes": "BIGINT",
}  # fmt: skip
_COLUMNS = (
    "source_id", "device_id", "stream_id", "thread_id", "kind", "name", "short_name", "detail", "start_ns", "end_ns",
    "launch_id", "depth", "collective", "bytes", "event_id",
)  # fmt: skip


def _select(table: str, end: str = "e.end_ns", where: str = "", join: str = "", **given: str) -> str:
    """Events of one table that reach into the stretch; what it has no column for is NULL."""
    fixed = {
        "source_id": "e.source_id", "start_ns": "e.start_ns - s.ahead", "end_ns": f"{end} - s.ahead",
        "event_id": "e.event_id",
    }  # fmt: skip
    known = {**{c: f"CAST(NULL AS {t})" for c, t in _NONE.items()}, **fixed, **given}
    listed = ", ".join(f"{known[c]} AS {c}" for c in _COLUMNS)
    return (
        f"SELECT {listed} FROM (SELECT * FROM normalized.{table} WHERE {{here}}) e "
        f"JOIN stretch s ON s.source_id = e.source_id {join}"
        f"WHERE e.start_ns < s.ahead + {{end}} AND {end} >= s.ahead + {{start}}{where}"
    )


_KERNELS = _select(
    "kernels", "e.effective_end_ns",
    join="LEFT JOIN (SELECT source_id, kernel_id, concat(coalesce(concat(group_id, ' '), ''), '#', sequence, ' ', "
    "operation) AS collective FROM normalized.collectives WHERE {here} AND sequence IS NOT NULL) c "
    "ON c.source_id = e.source_id AND c.kernel_id = e.event_id ",
    device_id="e.device_id", stream_id="e.stream_id", launch_id="e.launch_id", name="e.name",
    kind="CASE WHEN e.kernel_class = 'communication' THEN 'communication' ELSE 'compute' END",
    short_name="e.short_name", detail="concat_ws(', ', e.kernel_class, nullif(e.precision, 'unknown'))",
    collective="c.collective",
)  # fmt: skip
_MEMOPS = _select(
    "memops", device_id="e.device_id", stream_id="e.stream_id", launch_id="e.launch_id", kind="'memory'",
    name="concat_ws(' ', e.kind, e.direction)", detail="e.memory_kind", bytes="e.bytes",
)  # fmt: skip
_LAUNCHES = _select(
    "launches", thread_id="e.thread_id", launch_id="e.launch_id", kind="'launch'", name="e.api_name",
    event_id="e.launch_id",
)  # fmt: skip
_SYNCS = _select("syncs", where=" AND e.is_blocking", thread_id="e.thread_id", kind="'sync'", name="e.kind")
# What was never closed is open until the end of the stretch.
_ANNOTATIONS = _select(
    "annotations", "coalesce(e.end_ns, s.ahead + {end})", where=" AND e.side = 'host'", thread_id="e.thread_id",
    kind="CASE WHEN e.is_step THEN 'step' ELSE 'annotation' END", name="e.text", depth="e.depth",
    detail="CASE WHEN NOT e.is_closed THEN 'never closed' END", event_id="e.annotation_id",
)  # fmt: skip

SEEN = (
    "WITH stretch AS (SELECT * FROM VALUES {sources} AS t(source_id, ahead)), seen AS ("
    + " UNION ALL ".join((_KERNELS, _MEMOPS, _LAUNCHES, _SYNCS, _ANNOTATIONS))
    + ")"
)
"""Opens a query over `seen`; to be filled in: here, sources, start, end."""
