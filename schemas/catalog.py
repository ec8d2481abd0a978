"""All declared tables, found by walking the layer packages."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from tracelake.schemas.model import Table, View

LAYERS = ("raw", "normalized", "aggregates", "operations")


@cache
def tables(layer: str | None = None) -> dict[str, Table]:
    """Every table by its full name, or those of one layer.

    Raises ValueError where a module and its table do not share a name.
    """
    found: dict[str, Table] = {}
    for each in (layer,) if layer else LAYERS:
        package = importlib.import_module(f"tracelake.schemas.{each}")
        for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            table = importlib.import_module(f"tracelake.schemas.{each}.{module}").TABLE
            if table.name != f"{each}.{module}":
                raise ValueError(f"tracelake.schemas.{each}.{module} declares {table.name}")
            found[table.name] = table
    return found


def computed() -> dict[str, Table]:
    """The tables that runs make from raw data, by their full names."""
    return {**tables("normalized"), **tables("aggregates")}


def table(name: str) -> Table:
    """The table of that full name. Raises KeyError with the known names."""
    known = tables()
    if name not in known:
        raise KeyError(f"no table {name}; there are {', '.join(known)}")
    return known[name]


@cache
def views() -> dict[str, View]:
    """Every view by its name. Raises ValueError where a module and its view do not share a name."""
    found: dict[str, View] = {}
    package = importlib.import_module("tracelake.schemas.views")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        view = importlib.import_module(f"tracelake.schemas.views.{module}").VIEW
        if view.name != module:
            raise ValueError(f"tracelake.schemas.views.{module} declares {view.name}")
        found[view.name] = view
    return found


def in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """`names` so that each table comes after those it reads. Raises ValueError on a cycle."""
    ordered: list[str] = []
    open_: set[str] = set()

    def visit(name: str) -> None:
        if name in ordered or name not in names:
            return
        if name in open_:
            raise ValueError(f"{name} reads itself through {', '.join(sorted(open_))}")
        open_.add(name)
        for read in table(name).reads:
            visit(read)
        open_.discard(name)
        ordered.append(name)

    for name in names:
        visit(name)
    return tuple(ordered)


def made_from(*names: str) -> frozenset[str]:
    """These tables and all that they read, however far back."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += table(name).reads
    return frozenset(found)
