"""What an annotation costs, on each Python there is: CPU time of its thread, less that of a loop that does nothing.

A block is as many annotations as come between two flushes of a busy job; blocks of all forms alternate, and each is
compared with the empty loop of its round. Garbage collection stays on, as in a job.
"""

from __future__ import annotations

import tempfile
from typing import Any

from bench.child import measured
from bench.recorder_figures import median_interval, package_path, pythons

LIMITS_US = {"begin_end": 0.6, "context_manager": 1.0}
ROUNDS, CALLS = 60, 5_000
_CODE = """
import sys
sys.path[:] = [path for path in sys.path if path]  # the folder tracelake/ here is not the package
import json, platform, tempfile, time
from pathlib import Path
from tracelake.recorder import annotation
from tracelake.recorder.annotation import annotate, annotation_begin, annotation_end
from tracelake.recorder.spool import Journal

rounds, calls = int(sys.argv[1]), int(sys.argv[2])
now = time.thread_time_ns  # other processes on the core do not count
collector = annotation.Collector(10**6)
journal = Journal(Path(tempfile.mkdtemp(dir=sys.argv[3])))

def empty(numbers):
    started = now()
    for _ in numbers:
        pass
    return now() - started

def begin_end(numbers):
    started = now()
    for _ in numbers:
        annotation_end(annotation_begin("forward"))
    return now() - started

def context_manager(numbers):
    started = now()
    for _ in numbers:
        with annotate("forward"):
            pass
    return now() - started

def with_a_number(numbers):
    started = now()
    for number in numbers:
        with annotate(f"step_{number}"):
            pass
    return now() - started

@annotate("forward")
def nothing():
    pass

def decorator(numbers):
    started = now()
    for _ in numbers:
        nothing()
    return now() - started

forms = (begin_end, context_manager, with_a_number, decorator)
results = {f"{form.__name__}_{state}": [] for form in forms for state in ("on", "off")}
results["flush"] = []
for round_ in range(rounds + 2):
    for form in forms:
        for is_on in (True, False):
            annotation.set_recording(is_on)
            bare = empty(range(calls))
            cost = (form(range(calls)) - bare) / calls
            began = now()
            for taken in collector.take():
                journal.write("annotations", taken)
            flushed = (now() - began) / calls
            if round_ >= 2:
                results[f"{form.__name__}_{'on' if is_on else 'off'}"].append(cost / 1000)
                if is_on:
                    results["flush"].append(flushed / 1000)
print(json.dumps({"python": platform.python_version(), "us": results}))
"""


def measure() -> dict[str, Any]:
    """Microseconds per annotation by Python: median of the rounds with its 95 % interval, and the best round."""
    versions: dict[str, Any] = {}
    for python in pythons():
        with tempfile.TemporaryDirectory() as folder:
            arguments = (str(ROUNDS), str(CALLS), folder)
            run = measured(_CODE, *arguments, python=python, env=package_path())
        forms = {name: {**median_interval(us), "best": round(min(us), 4)} for name, us in run["us"].items()}
        versions[run["python"]] = forms
    worst = {name: max(forms[f"{name}_on"]["median"] for forms in versions.values()) for name in LIMITS_US if versions}
    return {
        "how": f"{ROUNDS} rounds of {CALLS} annotations, CPU time of the thread less an empty loop's beside each;"
        " flush is the flush thread's work, on whichever core it runs",
        "us_per_annotation": versions,
        "worst_median_us": worst,
        "limits_us": LIMITS_US,
        "holds": {name: worst[name] <= limit for name, limit in LIMITS_US.items() if name in worst},
    }
