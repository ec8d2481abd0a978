"""The aggregates of the event tables by DuckDB, straight from the raw files: what this machine could do at best.

Only what the benchmark's data holds is handled (ids that do not come round again, annotations that close and nest,
one device per process), and no normalized table is written: less work than the pipeline's, on purpose. Every figure
must equal the pipeline's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from tracelake.pipelines.normalized.kernel_rules import precision_of, rule_of
from tracelake.schemas.apis import BLOCKING_SYNCS

_DTYPES = {"float": "fp32", "bfloat16": "bf16"}
_MOST_BUCKETS = 120
_LOADS = r"dataloader|data[ _-]?load|next[ _-]?batch|wait_for_batch"

_SPENT = """sum(duration_ns) AS duration_sum_ns, min(duration_ns) AS duration_min_ns,
    quantile_disc(duration_ns, 0.5) AS duration_p50_ns, quantile_disc(duration_ns, 0.99) AS duration_p99_ns,
    max(duration_ns) AS duration_max_ns"""

_EVENTS = """
CREATE TABLE launches AS
SELECT w.s, event_id AS launch_id, api_name, thread_id, start_ns, start_ns + duration_ns AS end_ns, duration_ns,
    correlation_id
FROM {launch} JOIN windows w USING (source_id);

CREATE TABLE placed AS
WITH own AS (
    SELECT l.*, CASE WHEN l.start_ns < t.end_ns THEN t.annotation_id END AS own_id
    FROM launches l ASOF LEFT JOIN tops t ON l.s = t.s AND l.thread_id = t.thread_id AND l.start_ns >= t.start_ns
), both_ AS (
    SELECT o.*, CASE WHEN o.start_ns < t.end_ns THEN t.annotation_id END AS step_id
    FROM own o ASOF LEFT JOIN step_tops t ON o.s = t.s AND o.start_ns >= t.start_ns
)
SELECT b.* EXCLUDE (own_id, step_id), coalesce(own_id, step_id) AS annotation_id,
    CASE WHEN b.start_ns < st.end_ns THEN st.step END AS step
FROM both_ b ASOF LEFT JOIN steps st ON b.s = st.s AND b.start_ns >= st.start_ns;

CREATE TABLE kernels AS
WITH linked AS (
    SELECT w.s, k.stream_id, n.name_id, coalesce(c.precision, n.precision) AS precision,
        CASE WHEN c.precision IS NOT NULL THEN 'collective' WHEN n.precision <> 'unknown' THEN 'name' ELSE 'none' END
            AS precision_source,
        n.kernel_class = 'communication' AS is_comm, k.start_ns, k.start_ns + k.duration_ns AS end_ns,
        l.launch_id, l.api_name, l.start_ns AS call_start_ns, l.duration_ns AS call_ns, l.step, l.annotation_id
    FROM {kernel} k JOIN windows w USING (source_id) JOIN names n USING (name)
        LEFT JOIN dtypes c ON k.dtype = c.dtype
        LEFT JOIN placed l ON w.s = l.s AND k.correlation_id = l.correlation_id
), later AS (
    SELECT *, lead(start_ns) OVER stream AS next_ns, min(end_ns) OVER (stream ROWS BETWEEN 1 FOLLOWING AND
        UNBOUNDED FOLLOWING) AS least_ns
    FROM linked WINDOW stream AS (PARTITION BY s, stream_id ORDER BY start_ns)
)
SELECT * EXCLUDE (next_ns, least_ns, end_ns), CASE WHEN least_ns <= end_ns THEN next_ns ELSE end_ns END AS end_ns,
    CASE WHEN least_ns <= end_ns THEN next_ns ELSE end_ns END - start_ns AS duration_ns
FROM later;

CREATE TABLE memops AS
SELECT w.s, m.kind, m.direction, m.memory_kind, m.bytes, m.start_ns, m.start_ns + m.duration_ns AS end_ns,
    m.duration_ns, l.launch_id, l.step, l.annotation_id
FROM {memop} m JOIN windows w USING (source_id) LEFT JOIN placed l ON w.s = l.s AND m.correlation_id = l.correlation_id;

CREATE TABLE syncs AS
SELECT w.s, y.kind, y.thread_id, y.start_ns, y.start_ns + y.duration_ns AS end_ns
FROM {sync} y JOIN windows w USING (source_id);
"""

QUERIES = {
    "kernel_stats": f"""
SELECT job_id, name, kernel_class, is_tensor_core, most.precision, most.precision_source, precision_count,
    g.* EXCLUDE (job_id, name_id)
FROM (SELECT job_id, name_id, count(*) AS kernel_count, count(DISTINCT s) AS device_count, {_SPENT}
    FROM kernels JOIN windows USING (s) GROUP BY job_id, name_id) g
JOIN (SELECT job_id, name_id, max_by({{'precision': precision, 'precision_source': precision_source}}, spent) AS most,
        count(DISTINCT precision) AS precision_count
    FROM (SELECT job_id, name_id, precision, precision_source, sum(duration_ns) AS spent
        FROM kernels JOIN windows USING (s) GROUP BY ALL) GROUP BY ALL) USING (job_id, name_id)
JOIN names USING (name_id)""",
    "precision_stats": """
SELECT job_id, kernel_class, k.precision, precision_source, is_tensor_core, count(*) AS kernel_count,
    sum(duration_ns) AS duration_sum_ns
FROM kernels k JOIN windows USING (s) JOIN names USING (name_id) GROUP BY ALL""",
    "launch_stats": f"""
WITH firsts AS (
    SELECT s, launch_id, min(start_ns) AS first_ns, sum(is_kernel) AS kernel_count FROM (
        SELECT s, launch_id, start_ns, 1 AS is_kernel FROM kernels
        UNION ALL SELECT s, launch_id, start_ns, 0 FROM memops) WHERE launch_id IS NOT NULL GROUP BY ALL
), calls AS (
    SELECT p.*, first_ns - start_ns AS delay, coalesce(kernel_count, 0) AS kernel_count FROM placed p
    LEFT JOIN firsts USING (s, launch_id)
), free AS (
    SELECT *, max(end_ns) OVER (PARTITION BY s, stream_id ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until FROM kernels
), facts AS (
    SELECT f.s, f.launch_id, sum((f.duration_ns < f.call_ns)::BIGINT) AS short,
        sum((f.start_ns = first_ns AND f.start_ns - greatest(call_start_ns, coalesce(busy_until, call_start_ns))
            > 100000)::BIGINT) AS long
    FROM free f JOIN firsts USING (s, launch_id) GROUP BY ALL
)
SELECT job_id, api_name, count(*) AS launch_count, sum(kernel_count) AS kernel_count,
    coalesce(sum(short), 0) AS short_kernel_count, sum((duration_ns > 50000)::BIGINT) AS slow_launch_count,
    coalesce(sum(long), 0) AS long_delay_count, count(delay) AS launch_delay_count,
    quantile_disc(delay, 0.5) AS launch_delay_p50_ns, quantile_disc(delay, 0.99) AS launch_delay_p99_ns,
    max(delay) AS launch_delay_max_ns, {_SPENT}
FROM calls JOIN windows USING (s) LEFT JOIN facts USING (s, launch_id) GROUP BY job_id, api_name""",
    "memop_stats": f"""
SELECT job_id, kind, direction, memory_kind, count(*) AS memop_count, sum(bytes) AS sum_bytes,
    quantile_disc(bytes, 0.5) AS p50_bytes, max(bytes) AS max_bytes, {_SPENT}
FROM memops JOIN windows USING (s) GROUP BY job_id, kind, direction, memory_kind""",
    "device_activity": f"""
WITH points AS (
    SELECT s, unnest([start_ns, end_ns]) AS t, unnest([1, -1]) * (NOT is_comm)::INT AS comp,
        unnest([1, -1]) * is_comm::INT AS comm, 0 AS mem, 0 AS sync, 0 AS step FROM kernels
    UNION ALL SELECT s, unnest([start_ns, end_ns]), 0, 0, unnest([1, -1]), 0, 0 FROM memops
    UNION ALL SELECT s, unnest([start_ns, end_ns]), 0, 0, 0, unnest([1, -1]), 0 FROM syncs
        WHERE kind IN ({", ".join(repr(kind) for kind in sorted(BLOCKING_SYNCS))})
    UNION ALL SELECT s, unnest([start_ns, end_ns]), 0, 0, 0, 0, unnest([step + 1, -step - 1]) FROM steps
    UNION ALL SELECT s, unnest(range(from_ns, until_ns, bucket_ns)), 0, 0, 0, 0, 0 FROM windows
), inside AS (
    SELECT s, greatest(from_ns, least(t, until_ns)) AS t, comp, comm, mem, sync, step FROM points JOIN windows USING (s)
), live AS (
    SELECT s, t, lead(t) OVER line - t AS length, sum(comp) OVER line > 0 AS comp, sum(comm) OVER line > 0 AS comm,
        sum(mem) OVER line > 0 AS mem, sum(sync) OVER line > 0 AS sync, sum(step) OVER line AS step
    FROM inside WINDOW line AS (PARTITION BY s ORDER BY t ROWS UNBOUNDED PRECEDING)
)
SELECT job_id, source_id, (t - from_ns) // bucket_ns AS bucket, CASE WHEN step > 0 THEN step - 1 END::BIGINT AS step,
    sum(CASE WHEN comp THEN length ELSE 0 END) AS compute_ns,
    sum(CASE WHEN comm AND NOT comp THEN length ELSE 0 END) AS exposed_comm_ns,
    sum(CASE WHEN mem AND NOT comp AND NOT comm THEN length ELSE 0 END) AS exposed_mem_ns,
    sum(CASE WHEN sync AND NOT comp AND NOT comm AND NOT mem THEN length ELSE 0 END) AS sync_idle_ns,
    sum(CASE WHEN comm THEN length ELSE 0 END) AS comm_ns,
    sum(CASE WHEN comm AND comp THEN length ELSE 0 END) AS overlapped_comm_ns
FROM live JOIN windows USING (s) WHERE length > 0 AND (comp OR comm OR mem OR sync OR step > 0) GROUP BY ALL""",
    "step_ledger": """
WITH live AS (
    SELECT s, start_ns, end_ns, CASE WHEN is_comm THEN 1 ELSE 0 END AS class FROM kernels
    UNION ALL SELECT s, start_ns, end_ns, CASE kind WHEN 'memcpy' THEN 2 ELSE 3 END FROM memops
    UNION ALL SELECT s, start_ns, end_ns, 4 FROM placed
    UNION ALL SELECT s, start_ns, end_ns, 4 FROM syncs WHERE thread_id IS NOT NULL
    UNION ALL SELECT s, start_ns, end_ns, class FROM host_work
), points AS (
    SELECT s, unnest([start_ns, end_ns]) AS t, unnest([1, -1]) AS by_, class, 0 AS step FROM live
    UNION ALL SELECT s, unnest([start_ns, end_ns]), 0, 7, unnest([step + 1, -step - 1]) FROM steps
), swept AS (
    SELECT s, lead(t) OVER line - t AS length, sum(step) OVER line AS step,
        CASE WHEN sum(CASE class WHEN 0 THEN by_ END) OVER line > 0 THEN 0
            WHEN sum(CASE class WHEN 1 THEN by_ END) OVER line > 0 THEN 1
            WHEN sum(CASE class WHEN 2 THEN by_ END) OVER line > 0 THEN 2
            WHEN sum(CASE class WHEN 3 THEN by_ END) OVER line > 0 THEN 3
            WHEN sum(CASE class WHEN 4 THEN by_ END) OVER line > 0 THEN 4
            WHEN sum(CASE class WHEN 5 THEN by_ END) OVER line > 0 THEN 5
            WHEN sum(CASE class WHEN 6 THEN by_ END) OVER line > 0 THEN 6 END AS class
    FROM points WINDOW line AS (PARTITION BY s ORDER BY t ROWS UNBOUNDED PRECEDING)
)
SELECT job_id, source_id, (step - 1)::BIGINT AS step, sum(length) AS duration_ns,
    coalesce(sum(length) FILTER (class = 0), 0) AS compute_ns,
    coalesce(sum(length) FILTER (class = 1), 0) AS exposed_comm_ns,
    coalesce(sum(length) FILTER (class = 2), 0) AS memcpy_ns, coalesce(sum(length) FILTER (class = 3), 0) AS memset_ns,
    coalesce(sum(length) FILTER (class = 4), 0) AS runtime_ns,
    coalesce(sum(length) FILTER (class = 5), 0) AS data_loading_ns,
    coalesce(sum(length) FILTER (class = 6), 0) AS host_work_ns
FROM swept JOIN windows USING (s) WHERE step > 0 AND length > 0 GROUP BY ALL""",
    "step_launches": """
WITH events AS (
    SELECT s, step, start_ns, end_ns FROM kernels WHERE step IS NOT NULL
    UNION ALL SELECT s, step, start_ns, end_ns FROM memops WHERE step IS NOT NULL
), reached AS (
    SELECT s, step, end_ns, greatest(start_ns, coalesce(max(end_ns) OVER (PARTITION BY s, step ORDER BY start_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)) AS start_ns FROM events
), busy AS (
    SELECT s, step, count(*) AS event_count, sum(greatest(end_ns - start_ns, 0)) AS gpu_time_ns
    FROM reached GROUP BY ALL
)
SELECT job_id, source_id, step, count(*) AS launch_count, any_value(event_count) AS event_count,
    any_value(gpu_time_ns) AS gpu_time_ns
FROM placed JOIN windows USING (s) LEFT JOIN busy USING (s, step)
WHERE step IS NOT NULL GROUP BY job_id, source_id, step""",
    "annotation_stats": f"""
WITH events AS (
    SELECT s, annotation_id, start_ns, end_ns FROM kernels
    UNION ALL SELECT s, annotation_id, start_ns, end_ns FROM memops
), around AS (
    SELECT s, ancestor_id AS annotation_id, is_own, start_ns, end_ns FROM events JOIN ancestors USING (s, annotation_id)
), reached AS (
    SELECT s, annotation_id, 'all' AS part, end_ns, greatest(start_ns, coalesce(max(end_ns) OVER (
        PARTITION BY s, annotation_id ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns))
        AS start_ns FROM around
    UNION ALL
    SELECT s, annotation_id, 'own', end_ns, greatest(start_ns, coalesce(max(end_ns) OVER (
        PARTITION BY s, annotation_id ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns))
        FROM around WHERE is_own
), busy AS (
    SELECT s, annotation_id, coalesce(sum(greatest(end_ns - start_ns, 0)) FILTER (part = 'all'), 0) AS all_ns,
        coalesce(sum(greatest(end_ns - start_ns, 0)) FILTER (part = 'own'), 0) AS own_ns FROM reached GROUP BY ALL
)
SELECT job_id, name, count(*) AS annotation_count, coalesce(sum(own_ns), 0) AS gpu_exclusive_ns,
    coalesce(sum(all_ns), 0) AS gpu_time_ns, {_SPENT}
FROM ranges JOIN windows USING (s) LEFT JOIN busy USING (s, annotation_id) GROUP BY job_id, name""",
}
"""By table of the aggregates: the same figures, in the columns that it shares with that table."""


def compute(lake: Path, work: Path) -> duckdb.DuckDBPyConnection:
    """A connection that holds each aggregate as a table of that name, computed from the lake's raw files."""
    db = duckdb.connect(str(work / "limit.duckdb"))
    db.execute(f"SET temp_directory = '{work / 'spill'}'; SET preserve_insertion_order = false")
    _small_tables(db, lake)
    db.execute(_EVENTS.format(**{kind: _raw(lake, kind) for kind in ("launch", "kernel", "memop", "sync")}))
    for name, query in QUERIES.items():
        db.execute(f"CREATE TABLE {name} AS {query}")
    return db


def _raw(lake: Path, kind: str) -> str:
    return f"read_parquet('{lake}/raw/v1/{kind}/*/*/*.parquet', hive_partitioning = false)"


def _small_tables(db: duckdb.DuckDBPyConnection, lake: Path) -> None:
    """Windows, names and annotations: few rows, put in order in Python."""
    windows = db.execute(
        f"SELECT job_id, source_id, window_start_ns, window_end_ns, devices FROM {_raw(lake, 'source')}"
        " WHERE phase = 'close' ORDER BY 1, 2"
    ).fetchall()
    longest: dict[str, int] = defaultdict(int)
    for job, _, start, end, devices in windows:
        if len(json.loads(devices)) != 1:
            raise ValueError(f"{job}: a process with several devices, which this comparison does not handle")
        longest[job] = max(longest[job], end - start)
    rows = [(s, j, i, a, e, _nice(-(-longest[j] // _MOST_BUCKETS))) for s, (j, i, a, e, _) in enumerate(windows)]
    _table(db, "windows", "s INT, job_id TEXT, source_id TEXT, from_ns BIGINT, until_ns BIGINT, bucket_ns BIGINT", rows)
    names = [name for (name,) in db.execute(f"SELECT DISTINCT name FROM {_raw(lake, 'kernel')}").fetchall()]
    ruled = [(n, rule_of(n).kernel_class, precision_of(n), rule_of(n).is_tensor_core) for n in names]
    _table(
        db, "names", "name_id INT, name TEXT, kernel_class TEXT, precision TEXT, is_tensor_core BOOL",
        [(number, *row) for number, row in enumerate(ruled)],
    )  # fmt: skip
    dtypes = db.execute(f"SELECT DISTINCT dtype FROM {_raw(lake, 'kernel')} WHERE dtype IS NOT NULL").fetchall()
    _table(db, "dtypes", "dtype TEXT, precision TEXT", [(dtype, _DTYPES[dtype.lower()]) for (dtype,) in dtypes])
    _annotations(db, lake)


def _nice(at_least: int) -> int:
    power = 10 ** (len(str(at_least)) - 1)
    return next(step * power for step in (1, 2, 5, 10) if at_least <= step * power)


def _table(db: duckdb.DuckDBPyConnection, name: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
    db.execute(f"CREATE TABLE {name} ({columns})")
    for first in range(0, len(rows), 10_000):
        part = rows[first : first + 10_000]
        marks = ", ".join(["(" + ", ".join("?" * len(part[0])) + ")"] * len(part))
        db.execute(f"INSERT INTO {name} VALUES {marks}", [value for row in part for value in row])


def _annotations(db: duckdb.DuckDBPyConnection, lake: Path) -> None:
    """Steps, nesting, and which range was innermost when, thread by thread."""
    db.execute(f"""
CREATE TABLE ranges AS
SELECT w.s, event_id AS annotation_id, thread_id, a.start_ns, a.start_ns + duration_ns AS end_ns, duration_ns,
    CASE WHEN regexp_matches(text, '^.*[_#]\\d+$')
        THEN regexp_extract(text, '^(.*)[_#](\\d+)$', 1) ELSE text END AS name
FROM {_raw(lake, "annotation")} a JOIN windows w USING (source_id);
CREATE TABLE steps AS
SELECT s, thread_id, start_ns, end_ns, row_number() OVER (PARTITION BY s ORDER BY start_ns) - 1 AS step
FROM ranges WHERE name = 'step';
CREATE TABLE host_work AS
SELECT r.s, r.start_ns, r.end_ns, CASE WHEN regexp_matches(lower(name), '{_LOADS}') THEN 5 ELSE 6 END AS class
FROM ranges r JOIN (SELECT DISTINCT s, thread_id FROM steps) t ON r.s = t.s
WHERE name <> 'step' AND (r.thread_id = t.thread_id OR NOT regexp_matches(lower(name), '{_LOADS}'));
CREATE TABLE tops (s INT, thread_id BIGINT, start_ns BIGINT, end_ns BIGINT, annotation_id BIGINT);
CREATE TABLE ancestors (s INT, annotation_id BIGINT, ancestor_id BIGINT, is_own BOOL);
""")
    ordered = db.execute(
        "SELECT s, thread_id, start_ns, end_ns, annotation_id FROM ranges ORDER BY s, thread_id, start_ns, end_ns DESC"
    )
    tops, ancestors = _nested(ordered.fetchall())
    db.register("tops_", _arrow(tops, ("s", "thread_id", "start_ns", "end_ns", "annotation_id")))
    db.register("ancestors_", _arrow(ancestors, ("s", "annotation_id", "ancestor_id", "is_own")))
    db.execute("""
INSERT INTO tops SELECT * FROM tops_;
INSERT INTO ancestors SELECT * FROM ancestors_;
CREATE TABLE step_tops AS SELECT t.* FROM tops t JOIN (SELECT DISTINCT s, thread_id FROM steps) USING (s, thread_id);
""")


def _arrow(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> Any:
    import pyarrow as pa

    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


def _nested(rows: Iterable[tuple[int, int, int, int, int]]) -> tuple[list[Any], list[Any]]:
    """Stretches with the innermost range, and each range with itself and those around it."""
    tops: list[Any] = []
    ancestors: list[Any] = []
    stack: list[list[int]] = []
    line: tuple[int, int] | None = None

    def close(until: int | None) -> None:
        while stack and (until is None or stack[-1][1] <= until):
            at, end, number = stack.pop()
            tops.append((*line, at, end, number))  # type: ignore[misc]
            if stack:
                stack[-1][0] = end

    for s, thread, start, end, number in rows:
        if line != (s, thread):
            close(None)
            line = (s, thread)
        close(start)
        if stack and start > stack[-1][0]:
            tops.append((s, thread, stack[-1][0], start, stack[-1][2]))
        ancestors += [(s, number, each[2], False) for each in stack]
        ancestors.append((s, number, number, True))
        stack.append([start, end, number])
    close(None)
    return [row for row in tops if row[3] > row[2]], ancestors
