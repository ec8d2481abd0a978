"""Traces on S3 into lakes here and there; what a lake on S3 holds already is found there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from s3_servers import BUCKET, Server

from tracelake.recorder.importers import Imported, ImportFailed, ImportOptions, find, import_all, import_one
from tracelake.schemas.bucket import S3Options
from tracelake.schemas.manifest import RAW_FOLDER, manifests
from tracelake.schemas.storage import Folder, Storage

TS = 1_700_000_000_000_000
OPTIONS = ImportOptions("job")


def _trace(rank: int = 0, steps: int = 4) -> bytes:
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"step_{n}", "pid": 5, "tid": 5, "ts": TS + 100 * n, "dur": 40}
        for n in range(steps)
    ]
    head = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
    return json.dumps(head, indent=1).encode()


def _imported(server: Server, lake: Storage, *paths: str) -> list[Imported]:
    outcomes = list(import_all(find(paths, S3Options(server.url)), lake, OPTIONS))
    assert all(isinstance(outcome, Imported) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Imported)]


def test_objects_folders_and_globs(server: Server, tmp_path: Path) -> None:
    traces = server.lake("find")
    for name in ("run/rank-0.json", "run/rank-1.json", "run/notes.txt", "other/rank-0.json.gz"):
        traces.write(name, _trace(int("1" in name)))
    for given, expected in {
        "find/run/rank-0.json": ["run/rank-0.json"],
        "find/run": ["run/rank-0.json", "run/rank-1.json"],
        "find/run/": ["run/rank-0.json", "run/rank-1.json"],
        "find/*/rank-0.*": ["other/rank-0.json.gz", "run/rank-0.json"],
    }.items():
        found = find([f"s3://{BUCKET}/{given}"], S3Options(server.url))
        assert [str(trace) for trace in found] == [f"s3://{BUCKET}/find/{key}" for key in expected]
    for given, said in (("find/run/n*.json", "no object matches"), ("find/absent", "no such object, and no .json")):
        with pytest.raises(ImportFailed, match=rf"s3://{BUCKET}/{given.replace('*', '.')}: {said}"):
            find([f"s3://{BUCKET}/{given}"], S3Options(server.url))
    done = _imported(server, Folder(tmp_path), f"s3://{BUCKET}/find/run")
    assert sorted(each.path for each in done) == [f"s3://{BUCKET}/find/run/rank-{rank}.json" for rank in (0, 1)]
    files = {manifest.file for _, manifest in manifests(tmp_path / RAW_FOLDER)}
    assert files == {f"s3://{BUCKET}/find/run/rank-{rank}.json" for rank in (0, 1)}


def test_a_lake_on_s3_knows_what_it_holds(server: Server, tmp_path: Path) -> None:
    """The same file, and a cut one, whose rows are compared with segments there: neither is taken again."""
    lake = server.lake("known")
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    whole.write_bytes(_trace(steps=2000))
    cut.write_bytes(_trace(steps=2000)[:100_000])
    first, again, part = (_imported(server, lake, str(path))[0] for path in (whole, whole, cut))
    assert (first.duplicate, again.duplicate, part.duplicate) == (False, True, True)
    assert len(manifests(lake.below(RAW_FOLDER))) == 1
    assert not [file.key for file in lake.files() if "_staging" in file.key]


def test_a_whole_file_takes_the_place_of_a_cut_one(server: Server, tmp_path: Path) -> None:
    lake = server.lake("superseded")
    cut, whole = tmp_path / "cut.json", tmp_path / "whole.json"
    cut.write_bytes(_trace(steps=2000)[:100_000])
    whole.write_bytes(_trace(steps=2000))
    first, second = (_imported(server, lake, str(path))[0] for path in (cut, whole))
    assert (first.status, second.status) == ("incomplete", "complete")
    superseding = [m.supersedes for _, m in manifests(lake.below(RAW_FOLDER)) if m.status == "complete"]
    assert superseding == [first.sources]


def test_a_server_that_dies_leaves_no_manifest_and_the_next_try_completes(own_server: Server, tmp_path: Path) -> None:
    lake, path = own_server.lake("cut off"), tmp_path / "t.json"
    path.write_bytes(_trace())
    put, count = type(lake).put, 0

    def failing(bucket: object, file: Path, key: str) -> None:
        nonlocal count
        count += 1
        if count == 2:
            own_server.kill()
        put(bucket, file, key)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(lake), "put", failing)
        outcome = import_one(path, lake, OPTIONS)
    assert isinstance(outcome, tuple) and "the server does not answer" in outcome[1], outcome
    own_server.start()
    assert manifests(lake.below(RAW_FOLDER)) == []
    assert not _imported(own_server, lake, str(path))[0].duplicate
    assert len(manifests(lake.below(RAW_FOLDER))) == 1
