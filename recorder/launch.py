"""tracelake-record: runs a training command and records it, or speaks to a recording that runs."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from tracelake import __version__
from tracelake.recorder import control
from tracelake.recorder.identity import LAUNCH_ID, made_up
from tracelake.recorder.settings import FILE_VARIABLE, BadSetting, load
from tracelake.recorder.sidecar.parent import start_ticks
from tracelake.recorder.sidecar.start import LAUNCH_FOLDER, delivered_jobs

INJECT = Path(__file__).parent / "inject"
WAIT_SECONDS = 120.0
_SPOOL_NAME = re.compile(r"(?P<job>.+)-(?P<rank>x|\d+)-(?P<process>\d+)-[0-9a-f]{8}")
_EPILOG = """\
examples:
  tracelake-record --output s3://bucket/lake -- python train.py --epochs 3
  tracelake-record --windows "every 500 steps record 5" -- torchrun --nproc-per-node 8 train.py
  tracelake-record --start llama-17 --for 30
  tracelake-record --doctor
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is the command's. Ends with 2 on a bad option, before anything runs."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser()
    options = parser.parse_args(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    command = arguments[arguments.index("--") + 1 :] if "--" in arguments else options.command
    if options.recover is not None:
        return _recover(options.recover)
    given = _given(parser, options)
    if options.start is not None or options.stop is not None:
        return _control(options, _spool(given))
    if options.doctor:
        from tracelake.recorder.launch_doctor import examine

        return examine(load(environ={**os.environ, **given})[0])
    if not command:
        parser.error("give a command after --, for instance: tracelake-record -- python train.py")
    return _run(command, given, options.wait)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tracelake-record",
        usage="tracelake-record [options] -- command [arguments]",
        description="Run a training command and record it.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--output", metavar="LAKE", help="the lake: a folder or S3 (--output s3://bucket/lake)")
    add("--job", metavar="ID", help="id of the job, alike for all its ranks (--job llama-17)")
    add("--attempt", metavar="N", help="restarts of the job so far (--attempt 2)")
    add("--tag", action="append", default=[], metavar="NAME=VALUE", help="a tag, repeatable (--tag team=vision)")
    add(
        "--hyperparameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="likewise (--hyperparameter lr=3e-4)",
    )
    add("--interval", metavar="MS", help="milliseconds between samples of metrics (--interval 1000)")
    add("--windows", metavar="WHEN", help='when to record events (--windows "every 500 steps record 5")')
    add("--spool", metavar="FOLDER", help="local disk for what is not delivered yet (--spool /local/tracelake)")
    add("--no-gpu", action="store_true", help="no GPU events; metrics and annotations only (--no-gpu)")
    add("--config", metavar="FILE", help="a file of settings (--config recorder.toml)")
    add("--wait", type=_seconds, default=WAIT_SECONDS, metavar="SECONDS",
        help=f"longest wait for delivery after the command, {WAIT_SECONDS:.0f} by default (--wait 300)")  # fmt: skip
    modes = parser.add_argument_group("instead of running a command").add_mutually_exclusive_group()
    modes.add_argument("--start", metavar="PID|JOB", help="open a window in a running process or job (--start 4711)")
    modes.add_argument("--stop", metavar="PID|JOB", help="close it (--stop llama-17)")
    add("--for", type=_seconds, dest="seconds", metavar="SECONDS", help="close it by itself (--start 4711 --for 30)")
    modes.add_argument("--recover", type=Path, metavar="FOLDER",
                       help="deliver what dead processes left in a spool (--recover /tmp/tracelake-0)")  # fmt: skip
    modes.add_argument("--doctor", action="store_true", help="say what can be recorded here, and why not (--doctor)")
    add("--version", action="version", version=__version__, help="print the version (--version)")
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError("give seconds above 0")
    return value


def _given(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, str]:
    """The options as variables for the command. A bad value ends the program: nothing runs yet that could be hurt."""
    values = {
        "output": _absolute(options.output) if options.output and "://" not in options.output else options.output,
        "job_id": options.job,
        "attempt": options.attempt,
        "tags": _pairs(parser, "--tag", options.tag),
        "hyperparameters": _pairs(parser, "--hyperparameter", options.hyperparameter),
        "sampling_interval_ms": options.interval,
        "windows": options.windows,
        "spool": _absolute(options.spool) if options.spool else None,
        "gpu": "0" if options.no_gpu else None,
    }
    values = {name: value for name, value in values.items() if value is not None}
    try:
        load(values, environ={}, strict=True)
    except BadSetting as error:
        parser.error(str(error).replace(" is ignored", ""))
    variables = {f"TRACELAKE_{name.upper()}": value for name, value in values.items()}
    return {**variables, FILE_VARIABLE: _absolute(options.config)} if options.config else variables


def _absolute(path: str) -> str:
    """The command may change its folder."""
    return str(Path(path).absolute())


def _pairs(parser: argparse.ArgumentParser, option: str, pairs: Iterable[str]) -> str | None:
    split = [pair.partition("=") for pair in pairs]
    if not all(name.strip() and sign for name, sign, _ in split):
        parser.error(f"{option}: give NAME=VALUE, for instance {option} team=vision")
    return json.dumps({name.strip(): value for name, _, value in split}) if split else None


# Running --------------------------------------------------------------------------------------------------------------


def _run(command: Sequence[str], given: Mapping[str, str], wait_seconds: float) -> int:
    from tracelake.recorder.launch_command import Launcher, living_sidecars, remove

    environ = {name: value for name, value in os.environ.items() if name != "TRACELAKE_RECORDED"}
    launcher = Launcher()
    folder = _launch_folder()
    if folder is None:
        return launcher.end_like(launcher.run(command, environ))
    started = {LAUNCH_ID: made_up(_name(command)), **environ, **given, **_injected(environ, folder)}
    ended = launcher.run(command, started)
    try:
        ended.write(folder)
        if launcher.wait_for_sidecars(folder, wait_seconds):
            _say_where(folder)
    except OSError as error:
        _warn(f"the sidecars do not learn how the command ended: {error}")
    if not living_sidecars(folder):
        remove(folder)
    return launcher.end_like(ended)


def _name(command: Sequence[str]) -> str:
    """What a person would call this command: its script or module, else its program."""
    if "-m" in command[:-1] and Path(command[0]).name.startswith("python"):
        return command[command.index("-m") + 1]
    script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    return Path(script).stem or "command"


def _say_where(folder: Path) -> None:
    for job_id, output in sorted(delivered_jobs(folder)):
        _warn(f"recorded as job {job_id} in {output}")


def _launch_folder() -> Path | None:
    try:
        return Path(tempfile.mkdtemp(prefix="tracelake-launch-"))
    except OSError as error:
        _warn(f"the command runs, and is not recorded: no temporary folder ({error}); set TMPDIR")
        return None


def _injected(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    path = environ.get("PYTHONPATH")
    return {
        LAUNCH_FOLDER: str(folder),
        "PYTHONPATH": f"{INJECT}{os.pathsep}{path}" if path else str(INJECT),
    }


# Speaking to a recording ----------------------------------------------------------------------------------------------


def _spool(given: Mapping[str, str]) -> Path:
    return load(environ={**os.environ, **given})[0].spool


def _control(options: argparse.Namespace, spool: Path) -> int:
    target = options.start if options.start is not None else options.stop
    command = "stop" if options.start is None else f"start {options.seconds:g}" if options.seconds else "start"
    folders = _running(spool, target)
    if not folders:
        _warn(
            f"no running process of {target!r} has a spool in {spool}; give a process id or job id, and --spool if set"
        )
        return 1
    failed = 0
    for folder in folders:
        try:
            control.give(folder, command)
        except OSError as error:
            failed += 1
            _warn(f"{folder.name}: {error}")
    told = len(folders) - failed
    sys.stdout.write(f"{command}: told {told} process{'es' if told != 1 else ''}\n")
    return 1 if failed else 0


def _running(spool: Path, target: str) -> list[Path]:
    """Spools of living processes: of that process id, else of that job."""
    found = [(match, folder) for folder in _folders(spool) if (match := _SPOOL_NAME.fullmatch(folder.name))]
    alive = [(match, folder) for match, folder in found if start_ticks(int(match["process"])) is not None]
    job = quote(target, safe="")[:80]
    return [folder for match, folder in alive if match["process"] == target] or [
        folder for match, folder in alive if match["job"] == job
    ]


def _folders(spool: Path) -> list[Path]:
    try:
        return sorted(folder for folder in spool.iterdir() if folder.is_dir())
    except OSError:
        return []


def _recover(folder: Path) -> int:
    if not folder.is_dir():
        _warn(f"{folder} is no folder; give the spool, or one folder of it")
        return 1
    from tracelake.recorder.sidecar.run import recover

    count = recover(folder)
    sys.stdout.write(f"{count} spool{'s' if count != 1 else ''} recovered\n")
    return 0


def _warn(text: str) -> None:
    sys.stderr.write(f"tracelake-record: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
