"""Precision of the math and classes of the kernels, with what the precision rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tracelake.reports import format as f
from tracelake.reports.charts import Chart, Values, one_bar
from tracelake.reports.data import JobData
from tracelake.reports.html import bar, legend, state, table, term, text
from tracelake.reports.metric_rows import Precision
from tracelake.reports.page import Panel
from tracelake.reports.panels.shared import percent, share
from tracelake.reports.words import EVIDENCE, PRECISION_TOKENS

_TITLE = "Precision and kernel class"


def panel(data: JobData) -> Panel:
    compute = [r for r in data.precisions if r.kernel_class != "communication"]
    total = sum(r.duration_sum_ns for r in compute)
    if not total:
        words = "No compute kernel was recorded, so there is no math to classify."
        return Panel("precision", _TITLE, "Precision is unknown.", state("Nothing recorded", words, "no_kernels"), "c5")
    by_precision = _sums((r.precision, r) for r in compute)
    by_class = _sums((r.kernel_class, r) for r in compute)
    parts: Values = [
        {"c": p, "v": ns, "o": i, "b": f.duration(ns), "e": share(ns, total)} for i, (p, ns) in enumerate(by_precision)
    ]
    used = {p: PRECISION_TOKENS.get(p, "--unknown") for p, _ in by_precision}
    largest = by_class[0][1] or 1
    classes = [[text(c), bar(ns / largest), f.duration(ns), share(ns, total)] for c, ns in by_class]
    body = (
        '<div class="chart" data-chart="precision" role="img" aria-label="Compute kernel time by precision"></div>'
        + legend((used[p], text(p), share(ns, total)) for p, ns in by_precision)
        + table(
            [term("Compute class", "kernel-class"), "Time", "#" + term("Time", "kernel-time"), "#Share"],
            classes,
            "bars",
        )
    )
    chart = Chart([one_bar(parts, used)])
    definition = '<a class="btn" href="#def-precision">Definition</a>'
    say = _say(data, by_precision, total)
    return Panel("precision", _TITLE, say, body, "c5", definition, _evidence(compute, total), {"precision": chart})


def _sums(rows: Iterable[tuple[str, Precision]]) -> list[tuple[str, int]]:
    sums: Counter[str] = Counter()
    for key, row in rows:
        sums[key] += row.duration_sum_ns
    return sums.most_common()


def _say(data: JobData, by_precision: list[tuple[str, int]], total: int) -> str:
    top, ns = by_precision[0]
    unknown = dict(by_precision).get("unknown", 0)
    cores = data.summary.tensor_core_ratio
    words = f"{percent(ns / total, 'precision')} of compute kernel time is {text(top)}"
    if top == "unknown":
        words = f"The precision of {percent(ns / total, 'precision')} of compute kernel time is unknown"
    elif unknown:
        words += f", {percent(unknown / total, 'precision')} unknown"
    tensor = percent(cores, "tensor-core") if cores is not None else "unknown"
    return f"{words}. Share in tensor cores: {tensor}."


def _evidence(compute: list[Precision], total: int) -> str:
    sums = dict(_sums((r.precision_source, r) for r in compute))
    shares = ", ".join(f"{words} {share(sums.get(key, 0), total)}" for key, words in EVIDENCE.items())
    return f"Evidence, by share of compute kernel time: {shares}."
