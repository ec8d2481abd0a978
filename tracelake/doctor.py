"""What works here and what does not, each with the remedy."""

from __future__ import annotations

import hashlib
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tracelake import commands
from tracelake.schemas.storage import Folder
from tracelake.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tracelake.pipelines.lake import Lake

_LEAST_FREE_BYTES = 10 << 30
_PACKAGES = ("tracelake", "pyspark", "delta-spark", "pyarrow")


class Trouble(Exception):
    """What is wrong and what to do; commands that need it fail."""


class Doubt(Exception):
    """What is missing and what to do; commands work without it."""


@dataclass(frozen=True)
class Finding:
    """One line: `mark` is ok, warn or fail."""

    name: str
    mark: str
    text: str


def examine(settings: Settings, *, spark: bool) -> Iterator[Finding]:
    """Each check as it is done. Those of the tables need Spark, and are left out where it cannot start."""
    lake = commands.lake_of(settings)
    yield _find("versions", _versions)
    yield (java := _find("Java", _java))
    yield (jars := _find("jars", lambda: _jars(settings)))
    yield (writable := _find("lake", lambda: _writable(lake)))
    if writable.mark != "fail":
        yield _find("raw data", lambda: _raw(lake))
        yield _find("lease", lambda: _lease(lake))
    yield _find("Chromium", _chromium)
    if not spark or "fail" in (java.mark, jars.mark):
        return
    with ExitStack() as stack:
        sessions: list[SparkSession] = []
        yield (started := _find("Spark", lambda: _start(settings, stack, sessions)))
        if "fail" not in (started.mark, writable.mark):
            yield _find("tables", lambda: _tables(lake, sessions[0]))
            yield _find("not taken in", lambda: _behind(lake, sessions[0]))
            yield _find("last run", lambda: _last_run(lake, sessions[0]))


def _find(name: str, check: Callable[[], str]) -> Finding:
    told: tuple[type[BaseException], ...] = (Trouble, *commands.expected_errors())
    try:
        return Finding(name, "ok", check())
    except Doubt as doubt:
        return Finding(name, "warn", str(doubt))
    except Exception as error:  # noqa: BLE001 -- a check that breaks is an answer too
        text = " ".join(str(error).split())[:300]
        return Finding(name, "fail", text if isinstance(error, told) else f"{type(error).__name__}: {text}")


def _versions() -> str:
    try:
        found = [f"{name} {version(name)}" for name in _PACKAGES]
    except PackageNotFoundError as error:
        raise Trouble(f"{error.name} is not installed; install tracelake[lake,reports]") from error
    return f"{', '.join(found)}, Python {platform.python_version()}"


def _java() -> str:
    from tracelake.pipelines.session import java

    return java()


def _jars(settings: Settings) -> str:
    from tracelake.pipelines.jars import class_path, folder, pinned

    s3 = not isinstance(settings.storage, Folder)
    for jar, path in zip(pinned(s3=s3), class_path(s3=s3), strict=True):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != jar.sha256:
            raise Trouble(f"{path} is not the pinned jar; run `python -m tracelake.pipelines.jars`, which replaces it")
    return f"{folder()}: {', '.join(jar.file_name for jar in pinned())}" + (" and those of S3A" if s3 else "")


def _writable(lake: Lake) -> str:
    if not lake.storage.holds(""):
        raise Trouble(f"{lake.name}: no lake here; import traces first, or give --lake")
    lake.check_writable()
    if not isinstance(lake.storage, Folder):
        return f"{lake.name}: readable and writable"
    free = shutil.disk_usage(lake.root).free
    text = f"{lake.root}: readable and writable, {free / 2**30:.1f} GiB free"
    if free < _LEAST_FREE_BYTES:
        raise Doubt(f"{text}; make room, or remove what is old (`tracelake maintain`, [retention] of the settings)")
    return text


def _raw(lake: Lake) -> str:
    """Each manifest for itself: a run stops at the first bad one, and the user wants to know all."""
    from tracelake.schemas.manifest import READ_AT_ONCE, Manifest, manifest_keys

    keys, bad, listed = manifest_keys(lake.raw), [], list[str]()
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        for key, text in zip(keys, pool.map(lake.raw.read, keys), strict=True):
            try:
                listed += [segment.path for segment in Manifest.from_json(text.decode()).segments]
            except (ValueError, KeyError, TypeError):
                bad.append(lake.raw.url(key))
        missing = [path for path, size in zip(listed, pool.map(lake.raw.size, listed), strict=True) if size is None]
    if bad:
        raise Trouble(f"not manifests: {_some(bad)}; delete them and import the files again")
    if missing:
        raise Doubt(f"segments that manifests list are not there: {_some(missing)}; import or upload them again")
    return f"{len(keys):,} windows, {len(listed):,} segments"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _lease(lake: Lake) -> str:
    from tracelake.pipelines.lease import holder, is_locked

    is_free = not is_locked(lake.root) if isinstance(lake.storage, Folder) else holder(lake.storage) is None
    if is_free:
        return "free"
    raise Doubt(f"held by {holder(lake.storage) or 'another process'}; what writes the lake waits for it")


def _chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise Doubt("not found; only the tests of pages use it")


def _start(settings: Settings, stack: ExitStack, sessions: list[SparkSession]) -> str:
    clock = time.monotonic()
    session = stack.enter_context(commands._session(settings, "doctor"))
    session.range(1).count()
    sessions.append(session)
    return f"{session.version} at {session.conf.get('spark.master')}, ready after {time.monotonic() - clock:.1f} s"


def _tables(lake: Lake, spark: SparkSession) -> str:
    from tracelake.pipelines.upkeep import data_files, live_files
    from tracelake.schemas.catalog import tables

    written = [each for each in tables().values() if each.layer != "raw" and lake.exists(each)]
    older = []
    for declared in written:
        stored = spark.read.format("delta").load(lake.path(declared))
        lake.read(spark, declared.name)
        lacking = sorted(set(live_files(lake, spark, declared)) - data_files(lake, declared).keys())
        if lacking:
            raise Trouble(
                f"{declared.name}: files are not there: {_some(lacking)}; restore them, or remove"
                f" {lake.storage.url('tables')} and run again"
            )
        older += [f"{declared.name}.{name}" for name in declared.column_names if name not in stored.columns]
    if older:
        raise Doubt(f"an older version wrote them; the next write adds {_some(older)}; until then they read as NULL")
    return f"{len(written)} open with the declared columns"


def _behind(lake: Lake, spark: SparkSession) -> str:
    from tracelake.pipelines.intake import pending

    new, left_out = pending(lake, spark)
    if left_out:
        jobs = sorted({window.manifest.job_id for window in left_out})
        raise Doubt(
            f"{len(left_out):,} windows of jobs that retention has removed ({_some(jobs)}) are never taken in;"
            " `tracelake delete-job` forgets such a job, and then it can be imported again"
        )
    if new:
        jobs = sorted({window.manifest.job_id for window in new})
        raise Doubt(f"{len(new):,} windows of {_some(jobs)} are not in the tables; run `tracelake run`")
    return "nothing; the tables hold every window"


def _last_run(lake: Lake, spark: SparkSession) -> str:

    runs = lake.read(spark, "operations.runs").orderBy("started_ns", ascending=False).limit(1).collect()
    if not runs:
        raise Doubt("none yet; run `tracelake run`")
    run = runs[0]
    ended = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run["ended_ns"] / 1e9))
    text = f"{run['status']} {ended} ({run['run_id']}, {run['command']})"
    if run["status"] == "failed":
        raise Trouble(f"{text}: {run['error']}; mend the cause and run again")
    if run["status"] != "succeeded":
        raise Doubt(f"{text}: {run['error']}; see `tracelake quarantine list`")
    return text
