"""Input that is no trace: one line that names the file, and nothing in the lake."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from trace_files import JOB, event, kernels, left_behind, stored, trace, write

from tracelake.recorder.importers import Imported, ImportFailed, ImportOptions, find, import_one
from tracelake.recorder.importers.trace_file import import_file

OPTIONS = ImportOptions(JOB)
META = '{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}'


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not a trace"),
        (b"\n\n", "not a trace"),
        (b"hello, world", "not a trace"),
        (b"PAR1\x00\x00", "not a trace"),
        (b"{}", "not a trace"),
        (b'{"schemaVersion": 1}', "not a trace"),
        (b'{"traceEvents": 5}', "not a trace"),
        (b"[1, 2, 3]", "not a trace"),
        (b"[[0, 1], [2, 3]]", "not a trace"),
        (b'{"traceEvents": [', "no event"),
        (b'{"traceEvents": []}', "no event"),
        (b"[]", "no event"),
        (trace([META]), "no event"),
        (gzip.compress(b""), "not a trace"),
        (gzip.compress(trace(kernels(5)))[:12], "not a trace"),
        (b"\x1f\x8b broken", "not a trace"),
    ],
)
def test_a_file_that_is_no_trace(tmp_path: Path, content: bytes, word: str) -> None:
    file = write(tmp_path / "bad.json", content)
    with pytest.raises(ImportFailed) as raised:
        import_file(file, tmp_path / "lake", OPTIONS)
    message = str(raised.value)
    assert message.startswith(str(file))
    assert word in message
    assert "\n" not in message
    assert left_behind(tmp_path / "lake") == []


def test_a_memory_timeline_is_rejected_politely(tmp_path: Path, traces: Path) -> None:
    file = traces / "kineto" / "hta" / "memory_analysis__memory_timeline.raw.gz"
    with pytest.raises(ImportFailed, match="not a trace"):
        import_file(file, tmp_path / "lake", OPTIONS)
    assert left_behind(tmp_path / "lake") == []


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    outcome = import_one(tmp_path / "gone.json", tmp_path / "lake", OPTIONS)
    assert isinstance(outcome, tuple)
    assert outcome == (str(tmp_path / "gone.json"), f"{tmp_path / 'gone.json'}: No such file or directory")
    assert left_behind(tmp_path / "lake") == []


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", no_space)
    file = write(tmp_path / "t.json", trace(kernels(5)))
    assert import_one(file, tmp_path / "lake", OPTIONS) == (str(file), f"{file}: No space left on device")
    assert left_behind(tmp_path / "lake") == []


def test_a_disk_that_fills_in_the_middle_leaves_nothing_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    real = pq.write_table

    def second_fails(*args: Any, **options: Any) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(args)
        real(*args, **options)

    file = write(tmp_path / "t.json", trace([event("user_annotation", "step_1", 0, 90), *kernels(5)]))
    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", second_fails)
        assert isinstance(import_one(file, tmp_path / "lake", OPTIONS), tuple)
    assert left_behind(tmp_path / "lake") == []
    assert isinstance(import_one(file, tmp_path / "lake", OPTIONS), Imported)
    assert len(stored(tmp_path / "lake", "kernel")) == 5


def test_a_broken_manifest_is_named(tmp_path: Path) -> None:
    import_file(write(tmp_path / "t.json", trace(kernels(5))), tmp_path / "lake", OPTIONS)
    (manifest,) = (tmp_path / "lake").rglob("manifest/*/*/*.json")
    manifest.write_text("{}")
    outcome = import_one(write(tmp_path / "u.json", trace(kernels(6))), tmp_path / "lake", OPTIONS)
    assert isinstance(outcome, tuple)
    assert str(manifest) in outcome[1]


def test_find_takes_files_folders_and_patterns(tmp_path: Path) -> None:
    for name in ("a.json", "b.json.gz", "deep/c.json", "note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, b"{}")
    names = [path.name for path in find([str(tmp_path)])]
    assert names == ["a.json", "b.json.gz", "c.json"]
    assert [path.name for path in find([str(tmp_path / "*.json"), str(tmp_path / "a.json")])] == ["a.json"]
    assert [path.name for path in find([str(tmp_path / "note.txt")])] == ["note.txt"]


@pytest.mark.parametrize("given", ["", "nothing.json", "*.trace"])
def test_find_says_what_is_not_there(tmp_path: Path, given: str) -> None:
    write(tmp_path / "note.txt", b"")
    with pytest.raises(ImportFailed) as raised:
        find([str(tmp_path / given)])
    assert str(tmp_path / given) in str(raised.value)


def test_what_a_trace_of_only_operators_holds_is_imported_without_them_too(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", trace([event("cpu_op", "aten::mm", i, 1) for i in range(5)]))
    done = import_file(file, tmp_path / "lake", ImportOptions(JOB, operators=False))
    assert done.status == "complete"
    row = stored(tmp_path / "lake", "source")[-1]
    assert json.loads(row["devices"]) == []
    assert (row["host_start_ns"], row["host_end_ns"]) == (0, 5_000)
