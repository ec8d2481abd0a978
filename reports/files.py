"""Where pages lie, and how one links to another: side by side in one folder, each named by kind and job."""

from __future__ import annotations

from urllib.parse import quote


def job_file(job_id: str) -> str:
    """The file name of a job's page.

    >>> job_file("a/b"), checks_file("a b")
    ('job-a%2Fb.html', 'checks-a%20b.html')
    """
    return f"job-{quote(job_id, safe='')}.html"


def checks_file(job_id: str) -> str:
    """The file name of the page with a job's checks."""
    return f"checks-{quote(job_id, safe='')}.html"


def timeline_file(job_id: str, part: str = "", kind: str = "html") -> str:
    """The file name of a job's timeline, beside the job's page; `part` tells asked stretches apart.

    >>> timeline_file("a/b"), timeline_file("a", "step-3", "perfetto")
    ('timeline-a%2Fb.html', 'timeline-a@step-3.json.gz')
    """
    # No name of a job has an @ once it is quoted.
    told = f"@{part}" if part else ""
    return f"timeline-{quote(job_id, safe='')}{told}.{'html' if kind == 'html' else 'json.gz'}"


INDEX_FILE = "index.html"
RUNS_FILE = "runs.html"


def fleet_file(day: str) -> str:
    """The file name of a day's fleet page; `day` is an ISO date."""
    return f"fleet-{day}.html"


def href(file: str, section: str = "") -> str:
    """A link to a page of the same folder. The file's own name has percent signs, which a link writes out.

    >>> href(job_file("a/b"), "quality")
    'job-a%252Fb.html#quality'
    """
    return quote(file) + (f"#{section}" if section else "")
