"""Files that a page hands out."""

from __future__ import annotations

import csv
import io
import json

import sample_cases
import sample_ideal

from tracelake.reports.downloads import kernels_csv, links, summary_json


def test_the_summary_is_strict_json_with_the_tables_fields() -> None:
    data = sample_ideal.ideal()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    found = json.loads(summary_json(data), parse_constant=refuse)
    assert found["summary"]["step_median_ns"] == data.summary.step_median_ns
    assert [row["rank"] for row in found["stragglers"]] == [5]
    assert len(found["devices"]) == len(data.devices)


def test_kernels_are_rows_and_no_formulas() -> None:
    data = sample_cases.hostile()
    rows = list(csv.DictReader(io.StringIO(kernels_csv(data))))
    assert len(rows) == len(data.kernels)
    assert [int(row["duration_sum_ns"]) for row in rows] == [k.duration_sum_ns for k in data.kernels]
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "@"))]


def test_names_of_files_cannot_leave_their_attribute() -> None:
    html = links(sample_cases.hostile())
    assert html.count("<a ") == html.count("</a>") == 2
    assert "<script" not in html
