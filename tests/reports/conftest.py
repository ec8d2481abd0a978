"""Pages of the hand-made jobs, and a browser to open them in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# With --import-mode=importlib a test folder is on no path; its helpers live beside the tests all the same.
sys.path.insert(0, str(Path(__file__).parent))

import sample_cases
import sample_checks
import sample_data
import sample_fleet
import sample_ideal
from chromium import BINARY, Chromium

from tracelake.reports.checks import ChecksData, checks_page
from tracelake.reports.data import JobData
from tracelake.reports.fleet import fleet_page
from tracelake.reports.fleet_data import FleetData
from tracelake.reports.job import job_page

MADE_NS = 1_795_974_000_000_000_000
JOBS: dict[str, Callable[[], JobData]] = {
    "dlrm": sample_data.dlrm,
    "ideal": sample_ideal.ideal,
    "degraded": sample_data.degraded,
    "hostile": sample_cases.hostile,
    "many_names": sample_cases.many_names,
    "clock_change": sample_cases.clock_change,
    "few_steps": sample_cases.few_steps,
    "many_devices": sample_cases.many_devices,
}

CHECKS: dict[str, Callable[[], ChecksData]] = {
    "all_hold": sample_checks.all_hold,
    "much_fails": sample_checks.much_fails,
    "hostile_checks": sample_checks.hostile,
    "unchecked": sample_checks.unchecked,
}
FLEETS: dict[str, Callable[[], FleetData]] = {"fleet": sample_fleet.fleet, "bare_fleet": sample_fleet.bare}


def _html(name: str) -> str:
    if name in CHECKS:
        return checks_page(CHECKS[name](), made_ns=MADE_NS)
    if name in FLEETS:
        return fleet_page(FLEETS[name](), made_ns=MADE_NS)
    return job_page(JOBS[name](), made_ns=MADE_NS)


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a hand-made job, of its checks, or of a fleet, written once."""
    folder = tmp_path_factory.mktemp("pages")

    def write(name: str) -> Path:
        file = folder / f"{name}.html"
        if not file.exists():
            file.write_text(_html(name), encoding="utf-8")
        return file

    return write


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    if not BINARY.exists():
        pytest.skip(f"{BINARY} is not installed: pages were not opened")
    with Chromium() as chromium:
        yield chromium
