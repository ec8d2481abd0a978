"""What a page hands out as files: a summary for programs, and kernels for spreadsheets."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tracelake.reports.data import JobData
from tracelake.reports.html import text
from tracelake.reports.metric_rows import Kernel
from tracelake.reports.names import bounded
from tracelake.reports.sql import columns

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that starts so is a formula to spreadsheets."""
_MAX_CELL = 512
"""Characters of a name in a cell."""


def links(data: JobData) -> str:
    """Links that save the files; their content stands in the page, so that it works offline."""
    name = f"{data.job.job_id}-attempt-{data.summary.attempt}"
    return _link("Summary: JSON", f"{name}.json", "application/json", summary_json(data)) + _link(
        "Kernels: CSV", f"{name}-kernels.csv", "text/csv", kernels_csv(data)
    )


def _link(words: str, file: str, kind: str, content: str) -> str:
    address = f"data:{kind};base64,{base64.b64encode(content.encode('utf-8', 'backslashreplace')).decode()}"
    return f'<a class="btn opt" download="{text(file)}" href="{address}">{words}</a>'


def summary_json(data: JobData) -> str:
    """Job, summary, findings, devices, steps by name, unusual steps, slow ranks and scenarios: fields as in the tables.

    Strict JSON; times are Unix nanoseconds, durations nanoseconds, shares ratios.
    """
    causes = data.causes
    lists: dict[str, Sequence[Any]] = {
        "findings": data.findings,
        "devices": data.devices,
        "step_groups": data.step_groups,
        "outlier_steps": causes.outliers,
        "stragglers": causes.stragglers,
        "what_if": causes.what_if,
        "device_samples": causes.device_samples,
    }
    rows = {name: [asdict(row) for row in each] for name, each in lists.items()}
    whole = {"job": asdict(data.job), "summary": asdict(data.summary), **rows}
    return json.dumps(whole, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=str)


def kernels_csv(data: JobData) -> str:
    """The kernels of the page, a row each; a name that spreadsheets would run is prefixed with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = columns(Kernel)
    writer.writerow(names)
    writer.writerows([_cell(getattr(kernel, name)) for name in names] for kernel in data.kernels)
    return out.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    short = bounded(value, _MAX_CELL)
    return f"'{short}" if short.startswith(_FORMULA) else short
