"""What the wheel holds, and what importing the recorder loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {"tracelake": "tracelake"} | {
    f"tracelake.{name}": name for name in ("recorder", "pipelines", "schemas", "reports")
}


def test_every_package_of_the_tree_is_listed() -> None:
    found = set()
    for package, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inside = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((package, *inside)))
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_data_files_of_packages_are_listed() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc", ".md"):
                assert any(path.match(pattern) for pattern in data[package]), f"{path} is in no wheel"


def test_the_recorder_loads_nothing_heavy() -> None:
    heavy = ("pyspark", "pandas", "altair", "airflow", "great_expectations", "delta", "torch", "msgspec")
    code = (
        "import sys, tracelake, tracelake.recorder, tracelake.recorder.segments, tracelake.schemas.catalog as c;"
        f"c.tables(); print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_base_dependencies_are_the_recorders_few() -> None:
    names = {dependency.split(">")[0].split("=")[0] for dependency in PROJECT["project"]["dependencies"]}
    assert names == {"pyarrow", "nvidia-ml-py"}


def test_the_type_checker_sees_every_module() -> None:
    """mypy follows links in build/ns; a forgotten one would be checked by nobody and noticed by no one."""
    links = ROOT / "build" / "ns" / "tracelake"
    for folder in ("recorder", "pipelines", "schemas", "reports", "cli.py", "commands.py"):
        assert (links / folder).exists(), f"build/ns has no {folder}; run `make setup`"
