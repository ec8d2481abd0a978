"""What the pages of docs/ tell a reader to type is there: commands, options, files, links, modules, columns.

What runs without Spark is run. The rest is run by the tests that RUN_BY names.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest
import tomllib
import typer
from guides import GUIDES, PAGES, ROOT, Command, anchors, blocks, commands, links, name, shell_blocks, synopses
from recorded import Lake, environment, wait_until_delivered
from typer.testing import CliRunner

from tracelake.cli import app
from tracelake.recorder import compat, launch
from tracelake.schemas.catalog import tables, views
from tracelake.schemas.model import Table, View

GROUP = typer.main.get_command(app)
KNOWN = GROUP.commands  # type: ignore[attr-defined]
COMMANDS = [command for page in GUIDES for command in commands(page)]
RUN_BY = {
    "backfill": "tests/tracelake/test_cli.py",
    "delete-job": "tests/tracelake/test_cli_upkeep.py",
    "demo": "tests/tracelake/test_cli.py",
    "doctor": "tests/tracelake/test_cli_upkeep.py",
    "jobs": "tests/tracelake/test_cli.py",
    "maintain": "tests/tracelake/test_cli_upkeep.py",
    "metrics": "tests/tracelake/test_metrics.py",
    "nightly": "tests/tracelake/test_nightly.py",
    "publish": "tests/reports/publish/test_publish.py",
    "quarantine": "tests/tracelake/test_cli_upkeep.py",
    "report": "tests/tracelake/test_cli.py",
    "serve": "tests/tracelake/test_serve.py",
    "sql": "tests/tracelake/test_cli.py",
    "timeline": "tests/tracelake/test_cli.py",
}
_FOLDERS = "bench|conf|dags|docs|examples|pipelines|recorder|reports|schemas|tests"
_TRAINING = """
class Loss:
    def backward(self): pass
model, loader = lambda batch: Loss(), range(3)
"""
"""What the snippets of the pages leave to the reader's script."""


# Commands -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_is_one_that_the_program_takes(command: Command) -> None:
    if command.program == "tracelake-record":
        _record_takes(command.words)
        return
    first, *words = command.words
    KNOWN[first].make_context(first, list(words))


def _record_takes(words: tuple[str, ...]) -> None:
    own = words[: words.index("--")] if "--" in words else words
    parser = launch._parser()
    options = parser.parse_args(own)
    launch._given(parser, options)
    modes = (options.doctor, options.start, options.stop, options.recover)
    assert words[len(own) + 1 :] or any(modes), "no command to record"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_options_are_known(page: Path) -> None:
    recorder = {option for action in launch._parser()._actions for option in action.option_strings}
    unknown = []
    for program, rest in synopses(page):
        words = [word.strip("[]()|,.;:…") for word in rest.split(" -- ")[0].split()]
        options = {word.partition("=")[0] for word in words if re.match(r"--\w", word)}
        if program == "tracelake-record":
            unknown += sorted(options - recorder)
            continue
        first = words[0] if words else ""
        unknown += [first] if first not in KNOWN else sorted(options - _options(first))
    assert unknown == []


def _options(command: str) -> set[str]:
    """Of the command, and of the commands in it."""
    group = KNOWN[command]
    every = (group, *getattr(group, "commands", {}).values())
    return {"--help", *(each for one in every for p in one.params for each in (*p.opts, *p.secondary_opts))}


@pytest.mark.parametrize("command", KNOWN)
def test_help_has_an_example(command: str) -> None:
    told = CliRunner().invoke(app, [command, "--help"])
    assert told.exit_code == 0, told.output
    assert "Example:" in told.output or command in ("quarantine", "version")


def test_what_needs_spark_is_run_by_other_tests() -> None:
    named = {command.words[0] for command in COMMANDS if command.program == "tracelake"}
    assert named - {"import"} <= set(RUN_BY)
    for command, file in RUN_BY.items():
        assert f'"{command}"' in (ROOT / file).read_text(), f"{file} runs no {command}"


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_extras_targets_and_modules_are_there(page: Path) -> None:
    text = page.read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {extra for names in re.findall(r"tracelake\[([\w,]+)\]", text) for extra in names.split(",")}
    assert asked <= set(extras)
    targets = {target for block in shell_blocks(page) for target in re.findall(r"^make (\w+)", block, re.M)}
    targets |= set(re.findall(r"`make (\w+)", text))
    assert targets <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    for module in re.findall(r"python -m (tracelake[\w.]*)", text):
        assert find_spec(module), module


# Files, links, code ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_named_files_are_there(page: Path) -> None:
    found = re.findall(rf"(?<![\w/.-])(?:{_FOLDERS})/[\w./-]*\w", page.read_text())
    assert [file for file in found if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_python_compiles_and_its_imports_are_there(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, compat.Finder()])
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            assert all(map(find_spec, names)), names


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_sql_names_what_is_declared(page: Path) -> None:
    asked = [command.words[1] for command in commands(page) if command.words[:1] == ("sql",)]
    every: tuple[Table | View, ...] = (*tables().values(), *views().values())
    declared = [each for each in every if not each.name.startswith("raw.")]
    with duckdb.connect() as empty:
        for each in declared:
            columns = ", ".join(f'"{column.name}" {_duckdb_type(column.type.value)}' for column in each.columns)
            empty.execute(f'CREATE TABLE "{each.name.rpartition(".")[2]}" ({columns})')
        for query in (*asked, *blocks(page, "sql")):
            empty.execute(query)


def _duckdb_type(spark_type: str) -> str:
    listed = re.fullmatch(r"array<(\w+)>", spark_type)
    return f"{listed[1]}[]" if listed else re.sub(r"map<(.*)>", r"map(\1)", spark_type)


# What runs without Spark ----------------------------------------------------------------------------------------------


def _given(page: str, *beginning: str) -> Command:
    return next(c for c in COMMANDS if c.page == page and c.words[: len(beginning)] == beginning)


def _record(command: Command, folder: Path, script: str) -> Lake:
    """Run the command as it stands, in a folder with that script, and wait until all is delivered."""
    (folder / "train.py").write_text(script)
    env = {k: v for k, v in environment(folder).items() if k not in ("TRACELAKE_OUTPUT", "TRACELAKE_JOB_ID")}
    words = [sys.executable if word == "python" else word for word in command.words]
    ran = subprocess.run(
        [sys.executable, "-m", "tracelake.recorder.launch", *words],
        capture_output=True, text=True, timeout=60, cwd=folder, env=env,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "recorded as job first-run in" in ran.stderr
    return wait_until_delivered(folder)


@pytest.mark.parametrize("page", ["docs/start-training.md", "docs/migration-sagemaker-profiler.md"])
def test_the_snippets_are_recorded_by_the_command_of_the_page(page: str, tmp_path: Path) -> None:
    snippet = next(block for block in blocks(ROOT / page, "python") if "annotat" in block)
    command = _given("docs/start-training.md", "--output", "./lake")
    lake = _record(command, tmp_path, _TRAINING + snippet)
    assert {row["text"].lower() for row in lake.rows("annotation")} >= {"step_0", "forward"}
    assert {manifest.job_id for manifest in lake.manifests()} == {"first-run"}


def test_the_recorders_doctor_says_what_the_page_says(tmp_path: Path) -> None:
    words = [*_given("docs/start-training.md", "--doctor").words, "--output", str(tmp_path), "--spool", str(tmp_path)]
    told = subprocess.run(
        [sys.executable, "-m", "tracelake.recorder.launch", *words], capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 0, told.stderr
    assert [line.split()[:2] for line in told.stdout.splitlines()[:2]] == [["ok", "spool"], ["ok", "output"]]


def test_the_readmes_import_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = _given("README.md", "import")
    folder = tmp_path / command.words[1]
    folder.mkdir(parents=True)
    launched = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 5, "tid": 5, "args": {"correlation": 1}}
    ran = {**launched, "name": "gemm", "cat": "kernel", "pid": 0, "tid": 7}
    events = [{**event, "ph": "X", "ts": 1_700_000_000_000_000, "dur": 9} for event in (launched, ran)]
    (folder / "rank_0.json").write_text(json.dumps({"traceEvents": events}))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, list(command.words))
    assert done.exit_code == 0, done.output
    assert {manifest.job_id for manifest in Lake(tmp_path / "lake").manifests()} == {command.words[3]}
