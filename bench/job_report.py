"""The DLRM job's page from its imported raw data: the seconds, and where they go."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.child import measured

ROOT = Path(__file__).parents[1]
_CODE = """
import json, sys, time
from pathlib import Path
from tracelake import commands
from tracelake.settings import Settings
settings = Settings(Path(sys.argv[2]))
options = commands.import_options("dlrm", 0, None, None, [], [], True)
started = time.monotonic()
commands.import_traces(settings, [sys.argv[1]], options, spark=False, progress=lambda now, share: None)
imported = time.monotonic() - started
page, seconds = commands.report(settings, "dlrm", attempt=None, out=None, progress=lambda now, share: None)
again, warm = commands.report(settings, "dlrm", attempt=None, out=None, progress=lambda now, share: None)
rounded = lambda d: {k: round(v, 2) for k, v in d.items()}
print(json.dumps({"import_s": round(imported, 2), "report_s": rounded(seconds), "nothing_new_s": rounded(warm),
                  "page_bytes": Path(page).stat().st_size}))
"""


def measure() -> dict[str, Any]:
    """One cold command and one more that finds nothing new, each with one Spark session."""
    with tempfile.TemporaryDirectory() as lake:
        return measured(_CODE, str(ROOT.parent / "shared/traces/kineto/param/dlrm_kineto"), lake)
