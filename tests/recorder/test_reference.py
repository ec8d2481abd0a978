"""The recorder's reference page is what the code says."""

from __future__ import annotations

from pathlib import Path

from tracelake.recorder.reference import text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recorder-reference.md"


def test_the_reference_is_fresh() -> None:
    assert PAGE.read_text() == text(), "run `make docs`"
