"""The pinned jars: which are needed where, and what is said when one is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelake.pipelines.jars import JarsMissing, class_path, fetch, pinned


def test_a_bucket_needs_more_than_a_folder() -> None:
    folder, bucket = pinned(), pinned(s3=True)
    assert bucket[: len(folder)] == folder and {jar.name for jar in bucket[len(folder) :]} > {
        "hadoop-aws",
        "s3",
        "auth",
    }
    assert all(len(jar.sha256) == 64 for jar in bucket) and len({jar.file_name for jar in bucket}) == len(bucket)
    assert "bundle" not in {jar.name for jar in bucket}


def test_what_is_absent_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAKE_JARS", str(tmp_path))
    with pytest.raises(
        JarsMissing, match=r"delta-spark.*\.jar: no such jar; run `python -m tracelake\.pipelines\.jars`"
    ):
        class_path()
    for jar in pinned():
        (tmp_path / jar.file_name).write_bytes(b"")
    with pytest.raises(JarsMissing, match=r"hadoop-aws-3\.4\.2\.jar: no such jar; run `.*jars --s3` once"):
        class_path(s3=True)


def test_a_wrong_file_never_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ivy cannot fetch here: no jar is left, and the words name what is wanted."""
    monkeypatch.setenv("TRACELAKE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JarsMissing, match="no java on the PATH; install Java 17"):
        fetch(s3=True)
    assert list((tmp_path / "jars").iterdir()) == []
