from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tracelake.recorder import launch
from tracelake.recorder.launch import main
from tracelake.recorder.spool import CONTROL

_LAUNCHER = [sys.executable, "-m", "tracelake.recorder.launch"]
_SECONDS = 30.0


def _launch(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_LAUNCHER, *arguments], capture_output=True, text=True, timeout=_SECONDS, env={**os.environ, **environ}
    )


def _until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """`running(script)`: a shell script below the launcher, once it has made the file `ready` in its folder."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*_LAUNCHER, "--", "bash", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, preexec_fn=os.setpgrp, env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        started.append(process)
        _until((tmp_path / "ready").exists)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


# How a command ends ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_the_commands(code: int) -> None:
    assert _launch("--", "bash", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT"])
def test_a_killed_command_kills_the_launcher_alike(name: str) -> None:
    number = getattr(signal, name)
    script = f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {number:d})"
    assert _launch("--", sys.executable, "-c", script).returncode == -number


def test_a_command_that_cannot_be_started_ends_as_in_a_shell(tmp_path: Path) -> None:
    missing = _launch("--", "no-such-command")
    assert missing.returncode == 127
    assert missing.stderr == "tracelake-record: no-such-command: No such file or directory\n"
    plain = tmp_path / "plain"
    plain.write_text("")
    assert _launch("--", str(plain)).returncode == 126


def test_arguments_and_streams_pass_through() -> None:
    ran = subprocess.run(
        [*_LAUNCHER, "--", "bash", "-c", 'cat; echo "$@" >&2', "x", "--output", "a b", "--"],
        input="given", capture_output=True, text=True, timeout=_SECONDS,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("given", "--output a b --\n")


def test_a_command_may_come_without_the_dashes() -> None:
    assert _launch("--job", "j", "bash", "-c", "echo $TRACELAKE_JOB_ID").stdout == "j\n"


_INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def test_the_command_keeps_its_signals() -> None:
    """Python ignores SIGPIPE, and the launcher blocks what it waits for; the command must see neither."""
    ran = _launch("--", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status")
    # The C library keeps 32 and 33 for itself.
    masks = {line.split()[0]: int(line.split()[1], 16) & 0x7FFFFFFF for line in ran.stdout.splitlines()}
    # What these tests were started with ignored (nohup: SIGHUP) stays so.
    ignored = sum(1 << (number - 1) for number in _INHERITED if signal.getsignal(number) == signal.SIG_IGN)
    assert masks == {"SigBlk:": 0, "SigIgn:": ignored}


def test_a_parent_that_ignores_dead_children_is_no_trouble() -> None:
    script = (
        "import signal, os, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    ran = subprocess.run([sys.executable, "-c", script, *_LAUNCHER, "--", "bash", "-c", "exit 4"], timeout=_SECONDS)
    assert ran.returncode == 4


def test_the_command_runs_where_nothing_can_be_set_up() -> None:
    script = (
        "import sys, tempfile\n"
        "def full(**_): raise OSError(28, 'No space left on device')\n"
        "tempfile.mkdtemp = full\n"
        "from tracelake.recorder.launch import main\n"
        "sys.exit(main(['--', 'bash', '-c', 'echo ran $TRACELAKE_LAUNCH_FOLDER; exit 6']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=_SECONDS)
    assert (ran.returncode, ran.stdout) == (6, "ran\n")
    assert ran.stderr.count("tracelake-record: ") == 1
    assert "set TMPDIR" in ran.stderr


# Signals --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_reach_the_command(name: str, running: Callable[[str], subprocess.Popen[str]]) -> None:
    if signal.getsignal(getattr(signal, f"SIG{name}")) == signal.SIG_IGN:
        pytest.skip(f"SIG{name} is ignored here, and a shell cannot trap what it was started with ignored")
    process = running(f"trap 'exit 7' {name}; touch ready; while :; do sleep 0.05; done")
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.wait(_SECONDS) == 7


def test_a_stopped_launcher_stops_the_command_until_it_goes_on(
    tmp_path: Path, running: Callable[[str], subprocess.Popen[str]]
) -> None:
    process = running("echo $$ > command; touch ready; trap 'exit 8' USR1; while :; do sleep 0.05; done")
    command = int((tmp_path / "command").read_text())
    process.send_signal(signal.SIGTSTP)
    _until(lambda: _state(command) == _state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    _until(lambda: _state(command) != "T")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(_SECONDS) == 8


def _state(process_id: int) -> str:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]


def test_control_c_at_the_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    script = "n=0; trap 'n=$((n+1))' INT; touch ready; while [ ! -e go ]; do sleep 0.05; done; echo $n > count"
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [*_LAUNCHER, "--", "bash", "-c", script])
    _until((tmp_path / "ready").exists)
    os.write(terminal, b"\x03")
    # The echo of ^C tells that the terminal has sent the signal.
    echoed = b""
    while b"^C" not in echoed:
        echoed += os.read(terminal, 100)
    (tmp_path / "go").touch()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
    assert (tmp_path / "count").read_text() == "1\n"


def test_orphans_leave_no_zombies(tmp_path: Path, running: Callable[[str], subprocess.Popen[str]]) -> None:
    process = running(
        "(bash -c 'echo $$ > orphan; while [ ! -e go ]; do sleep 0.02; done' &) ; while [ ! -s orphan ]; do sleep 0.02;"
        " done; touch ready; while [ ! -e end ]; do sleep 0.05; done"
    )
    orphan = Path(f"/proc/{(tmp_path / 'orphan').read_text().strip()}")
    assert f"PPid:\t{process.pid}\n" in (orphan / "status").read_text()
    (tmp_path / "go").touch()
    _until(lambda: not orphan.exists())
    (tmp_path / "end").touch()
    assert process.wait(_SECONDS) == 0


def test_as_process_one_it_ends_with_the_shells_code() -> None:
    namespace = ["unshare", "--pid", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets no process have a namespace of its own")
    ran = subprocess.run([*namespace, *_LAUNCHER, "--", "bash", "-c", "kill -9 $$"], timeout=_SECONDS)
    assert ran.returncode == 128 + 9


# Sidecars -------------------------------------------------------------------------------------------------------------

# Registers as a sidecar does, waits for exit.json, copies it, and has finished.
_SIDECAR = """
exec >/dev/null 2>&1
me=$TRACELAKE_LAUNCH_FOLDER/$$.sidecar; echo $BASHPID > $me
while [ ! -e $TRACELAKE_LAUNCH_FOLDER/exit.json ]; do sleep 0.02; done
cp $TRACELAKE_LAUNCH_FOLDER/exit.json end; echo $TRACELAKE_LAUNCH_FOLDER > folder; sleep 0.2; touch done; rm $me
"""
_BEFORE = f"({_SIDECAR}) & while [ ! -e $TRACELAKE_LAUNCH_FOLDER/*.sidecar ]; do sleep 0.02; done\n"


def test_sidecars_learn_how_the_command_ended_and_are_waited_for(
    tmp_path: Path, running: Callable[[str], subprocess.Popen[str]]
) -> None:
    before_ns = time.time_ns()
    process = running(_BEFORE + "trap 'exit 9' TERM; touch ready; while :; do sleep 0.05; done")
    process.send_signal(signal.SIGTERM)
    assert process.wait(_SECONDS) == 9
    assert (tmp_path / "done").exists()
    end = json.loads((tmp_path / "end").read_text())
    assert before_ns < end.pop("ended_ns") < time.time_ns()
    assert end == {"exit_code": 9, "signal": None, "forwarded": ["SIGTERM"]}
    assert not Path((tmp_path / "folder").read_text().strip()).exists()


def test_sidecars_learn_of_the_signal_that_killed_it(
    tmp_path: Path, running: Callable[[str], subprocess.Popen[str]]
) -> None:
    process = running(_BEFORE + "touch ready; kill -KILL $$")
    assert process.wait(_SECONDS) == -signal.SIGKILL
    end = json.loads((tmp_path / "end").read_text())
    assert (end["exit_code"], end["signal"], end["forwarded"]) == (None, "SIGKILL", [])


def test_the_wait_for_sidecars_is_bounded_and_the_dead_do_not_count() -> None:
    # A registered process that lives on, and one that is dead.
    script = (
        "sleep 60 >/dev/null 2>&1 & echo $! > $TRACELAKE_LAUNCH_FOLDER/1.sidecar; echo $! $TRACELAKE_LAUNCH_FOLDER;"
        " sleep 0 & wait $!; echo $! > $TRACELAKE_LAUNCH_FOLDER/2.sidecar; exit 5"
    )
    ran = _launch("--wait", "0.3", "--", "bash", "-c", script)
    sleeper, folder = ran.stdout.split()
    os.kill(int(sleeper), signal.SIGKILL)
    shutil.rmtree(folder)
    assert ran.returncode == 5
    assert "1 sidecars still deliver" in ran.stderr


# Options --------------------------------------------------------------------------------------------------------------


def test_options_become_variables_of_the_command(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*_LAUNCHER, "--output", "lake", "--job", "llama-17", "--attempt", "2", "--tag", "team=vision",
         "--tag", "a=b=c", "--hyperparameter", "lr=3e-4", "--interval", "1000",
         "--windows", "every 500 steps record 5", "--spool", "spool", "--no-gpu",
         "--config", "recorder.toml", "--", sys.executable, "-S", "-c",
         "import json, os; print(json.dumps(dict(os.environ)))"],
        capture_output=True, text=True, timeout=_SECONDS, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "/mine", "TRACELAKE_RECORDED": "0:1", "TRACELAKE_OUTPUT": "elsewhere"},
    )  # fmt: skip
    found = {name: value for name, value in json.loads(ran.stdout).items() if name.startswith("TRACELAKE_")}
    assert Path(found.pop("TRACELAKE_LAUNCH_FOLDER")).is_absolute()
    assert found.pop("TRACELAKE_LAUNCH_ID").startswith("python-")
    assert found == {
        "TRACELAKE_OUTPUT": str(tmp_path / "lake"),
        "TRACELAKE_JOB_ID": "llama-17",
        "TRACELAKE_ATTEMPT": "2",
        "TRACELAKE_TAGS": '{"team": "vision", "a": "b=c"}',
        "TRACELAKE_HYPERPARAMETERS": '{"lr": "3e-4"}',
        "TRACELAKE_SAMPLING_INTERVAL_MS": "1000",
        "TRACELAKE_WINDOWS": "every 500 steps record 5",
        "TRACELAKE_SPOOL": str(tmp_path / "spool"),
        "TRACELAKE_GPU": "0",
        "TRACELAKE_CONFIG": str(tmp_path / "recorder.toml"),
    }
    assert json.loads(ran.stdout)["PYTHONPATH"] == f"{launch.INJECT}{os.pathsep}/mine"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--windows", "sometimes", "--", "true"], "give all, none"),
        (["--interval", "fast", "--", "true"], "give a whole number"),
        (["--tag", "vision", "--", "true"], "give NAME=VALUE"),
        (["--wait", "0", "--", "true"], "give seconds above 0"),
        (["--start", "1", "--stop", "1"], "not allowed with"),
        ([], "give a command after --"),
    ],
)
def test_bad_options_end_it_before_anything_runs(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_help_has_an_example_for_each_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for option in ("--output", "--job", "--attempt", "--tag", "--hyperparameter", "--interval", "--windows", "--spool",
                   "--no-gpu", "--config", "--wait", "--start", "--stop", "--for", "--recover",
                   "--doctor"):  # fmt: skip
        assert f"({option}" in text or f" {option} 30)" in text


# Speaking to a recording ----------------------------------------------------------------------------------------------


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Spools of two ranks of a job and of another job, all of this living process, and one of a dead process."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name in (f"my%20job-0-{os.getpid()}-00000000", f"my%20job-1-{os.getppid()}-00000001",
                 f"4711-x-{os.getppid()}-0000000a", f"my%20job-2-{dead.pid}-00000002", "no-spool"):  # fmt: skip
        (tmp_path / name).mkdir()
    return tmp_path


def _commands(spool: Path) -> dict[str, str]:
    return {path.parent.name[-3:]: path.read_text() for path in sorted(spool.glob(f"*/{CONTROL}"))}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--start", "my job"], {"000": "start", "001": "start"}),
        (["--start", "my job", "--for", "30"], {"000": "start 30", "001": "start 30"}),
        (["--stop", str(os.getpid())], {"000": "stop"}),
        (["--stop", "4711"], {"00a": "stop"}),
    ],
)
def test_running_processes_are_told(spool: Path, arguments: list[str], expected: dict[str, str]) -> None:
    assert main([*arguments, "--spool", str(spool)]) == 0
    assert _commands(spool) == expected


@pytest.mark.parametrize("target", ["other", "999999999"])
def test_nobody_to_tell_is_one_clear_error(spool: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--start", target, "--spool", str(spool)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert repr(target) in error
    assert str(spool) in error


def test_recovering_a_folder_that_is_none_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--recover", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_recovering_an_empty_spool_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--recover", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "0 spools recovered\n"


def test_the_doctor_says_a_line_for_each_part(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bad = _launch("--doctor", "--output", str(tmp_path / "file" / "lake"), "--spool", str(tmp_path / "spool"))
    good = _launch("--doctor", "--output", str(tmp_path / "lake"), "--spool", str(tmp_path / "spool"))
    assert (bad.returncode, good.returncode) == (1, 0)
    assert len(good.stdout.splitlines()) == 8
    assert all(line.startswith(("ok  ", "--  ")) for line in good.stdout.splitlines())
    assert "cannot be written" in bad.stdout.splitlines()[1]


def test_a_job_without_a_name_gets_one_and_the_end_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os; print(os.environ['TRACELAKE_LAUNCH_ID'])")
    command = [*_LAUNCHER, "--output", str(tmp_path / "lake"), "--spool", str(tmp_path / "spool"), "--no-gpu", "--"]
    ran = subprocess.run(
        [*command, sys.executable, "train.py"], capture_output=True, text=True, timeout=_SECONDS, cwd=tmp_path
    )
    assert ran.returncode == 0
    job_id = ran.stdout.strip()
    assert job_id.startswith("train-")
    assert ran.stderr == f"tracelake-record: recorded as job {job_id} in {tmp_path / 'lake'}\n"
    assert {path.name for path in (tmp_path / "lake/raw/v1/manifest").glob("*/*")} == {f"job={job_id}"}
