"""A table is found by its name: declaration, job and test, and nothing without the others."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from tracelake.schemas.catalog import table, tables

ROOT = Path(__file__).parents[1]
COMPUTED = [name for name in tables() if name.split(".")[0] in ("normalized", "aggregates")]


@pytest.mark.parametrize("name", COMPUTED)
def test_a_table_has_its_job_and_its_test(name: str) -> None:
    layer, short = name.split(".")
    assert (ROOT / "pipelines" / layer / f"{short}.py").is_file()
    assert (ROOT / "tests" / "pipelines" / layer / f"test_{short}.py").is_file()


@pytest.mark.parametrize("name", COMPUTED)
def test_a_job_takes_the_tables_that_it_declares_to_read(name: str) -> None:
    module = importlib.import_module(f"tracelake.pipelines.{name}")
    parameters = list(inspect.signature(getattr(module, table(name).short_name)).parameters)
    reads = [read.partition(".")[2] for read in table(name).reads]
    assert [p for p in parameters if p != "parameters"] == reads


def test_every_module_of_a_layer_is_a_table_or_named_here() -> None:
    beside = {"normalized.kernel_rules"}
    for layer in ("normalized", "aggregates"):
        modules = {f"{layer}.{p.stem}" for p in (ROOT / "pipelines" / layer).glob("*.py") if p.stem != "__init__"}
        assert modules - beside == {name for name in COMPUTED if name.startswith(layer)}


def test_reads_name_tables_and_make_no_circle() -> None:
    from tracelake.schemas.catalog import in_order

    names = tuple(tables())
    assert set(in_order(names)) == set(names)
    for name in names:
        for read in table(name).reads:
            assert read in names, f"{name} reads {read}, which no one declares"


def test_normalized_tables_are_keyed_so_that_a_window_can_be_replaced() -> None:
    for name in COMPUTED:
        assert "job_id" in table(name).key, f"{name} cannot be replaced by job"
