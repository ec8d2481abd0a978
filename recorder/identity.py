"""Who this process is: job, attempt, rank and machine, found alike by all ranks of a job without being told.

Only variables and files are read; no metadata service is asked. The job id is the first of
1. the setting (TRACELAKE_JOB_ID);
2. TORCHELASTIC_RUN_ID, unless it is `none`, as plain torchrun sets it;
3. TRAINING_JOB_NAME (SageMaker);
4. SLURM_JOB_ID (each task of an array has its own);
5. on Kubernetes (KUBERNETES_SERVICE_HOST is set): JOB_NAME; else the pod's name (POD_NAME, HOSTNAME) without
   -<JOB_COMPLETION_INDEX> and a random suffix (indexed Job), or without -master-0, -worker-3 (Kubeflow);
6. where all ranks run on this node: <node>-<hash of node, boot, launcher's process id and start>;
7. where there is one rank, below tracelake-record: the id that it made up for its command;
8. else one made up for this process alone: <script>-<UTC time>-<random>; `is_named` is then False.
A name that is used again for another job (a fixed --rdzv-id, a Kubernetes Job created anew) needs TRACELAKE_JOB_ID.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from tracelake.recorder.machine import Machine, launcher_of, machine_of, user_of
from tracelake.recorder.redact import hide, hide_command, hide_map, secret_values
from tracelake.recorder.settings import Settings

LAUNCH_ID = "TRACELAKE_LAUNCH_ID"
_LONGEST_COMMAND_COUNT = 4096
_TRACKERS = (
    "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI",
    "WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_GROUP", "WANDB_NAME",
    "COMET_EXPERIMENT_KEY", "COMET_WORKSPACE", "COMET_PROJECT_NAME",
    "NEPTUNE_PROJECT", "NEPTUNE_RUN_ID", "NEPTUNE_CUSTOM_RUN_ID", "CLEARML_TASK_ID",
)  # fmt: skip
_ENVIRONMENT = (
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "GROUP_RANK",
    "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_STEP_ID", "SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION", "SLURM_NODEID",
    "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT",
    "POD_NAME", "POD_NAMESPACE", "POD_UID", "JOB_NAME", "JOB_COMPLETION_INDEX",
    "TRAINING_JOB_NAME", "TRAINING_JOB_ARN", "SM_CURRENT_HOST",
)  # fmt: skip
_PROJECTS = (
    "WANDB_PROJECT", "COMET_PROJECT_NAME", "NEPTUNE_PROJECT", "MLFLOW_EXPERIMENT_NAME", "SLURM_JOB_ACCOUNT"
)  # fmt: skip
# Rank, world size, rank on the node, ranks on the node; the first launcher whose rank is there speaks for all four.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)
_KUBEFLOW_POD = re.compile(r"(.+)-(?:master|worker|launcher|chief)-\d+")
_UNIFORM_TASKS = re.compile(r"(\d+)(?:\(x\d+\))?")
_SEPARATORS = "-_.:@/ \t\r\n"
_UUID = r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"
_RUN_SUFFIX = re.compile(
    rf"(?:^|[-_.:@/ ])(?:{_UUID}|(?:(?:run|trial|attempt|try|seed|job)[-_.]?)?\d+|\d+t\d+z?|t?\d+z"
    r"|(?=[a-f]*\d)[0-9a-f]{6,})\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Identity:
    """Everything unknown is None. `is_named` is False where the job id is known to this process alone."""

    job_id: str
    attempt: int
    rank: int | None
    world_size: int | None
    local_rank: int | None
    local_world_size: int | None
    node_id: str
    process_id: int
    process_name: str
    is_named: bool
    project: str | None
    user: str | None
    family: str | None
    framework: str | None
    instance_type: str | None
    cloud_account: str | None
    cloud_region: str | None
    instance_id: str | None
    cloud_job_id: str | None
    tags: Mapping[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Ranks:
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None


def find(
    settings: Settings,
    environ: Mapping[str, str] = os.environ,
    *,
    arguments: Sequence[str] | None = None,
    root: Path = Path("/"),
) -> Identity:
    """Who this process is, but for its framework. `arguments` stand for sys.argv, `root` for the root folder."""
    environ = {name: value.encode("utf-8", "replace").decode() for name, value in environ.items()}
    known_secrets = secret_values(environ)
    command = hide_command(_arguments() if arguments is None else arguments, known_secrets)
    script = _script(command)
    machine = machine_of(environ, root)
    node = settings.node or machine.node
    warnings: list[str] = []
    ranks = _ranks(settings, environ, warnings)
    named, name = _named(settings, environ)
    job_id = named or _local_id(ranks, environ, node, root) or _launch_id(ranks, environ)
    is_named = job_id is not None
    if job_id is None:
        job_id = made_up(script)
        warnings.append(f"the job has no id that its ranks share: {job_id} was made up; set TRACELAKE_JOB_ID")
    return Identity(
        job_id=job_id,
        attempt=_attempt(settings, environ),
        rank=ranks.rank,
        world_size=ranks.world_size,
        local_rank=ranks.local_rank,
        local_world_size=ranks.local_world_size,
        node_id=node,
        process_id=os.getpid(),
        process_name=script,
        is_named=is_named,
        project=settings.project or hide(_first(environ, _PROJECTS) or "", known_secrets) or None,
        user=settings.user or user_of(environ, root),
        family=settings.family or family_of(hide(name or "", known_secrets)) or family_of(script) or script,
        framework=None,
        instance_type=machine.instance_type,
        cloud_account=machine.account,
        cloud_region=machine.region,
        instance_id=machine.instance_id,
        cloud_job_id=_cloud_job_id(environ, machine),
        tags={"command": _line(command), **hide_map({**_captured(environ), **settings.tags}, known_secrets)},
        warnings=tuple(warnings),
    )


def made_up(script: str) -> str:
    """An id that no other run has."""
    return f"{script}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{token_hex(3)}"


def family_of(name: str) -> str | None:
    """The job's name without what differs from run to run; None where nothing is left.

    Dates, times, numbers, UUIDs, hexadecimal words with a digit (6 letters on) and run-12, trial_3, seed42 go, as
    often as they end the name: llama-7b-2026-11-29-10-30 → llama-7b, resnet50-run-12 → resnet50. So does the 2 of
    gpt-2: reruns that find no family are of less use than two models that share one, and `family` can be set.
    """
    name = name[:256].strip(_SEPARATORS)
    while match := _RUN_SUFFIX.search(name):
        name = name[: match.start()].rstrip(_SEPARATORS)
    return name or None


def _first(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((environ[name].strip() for name in names if environ.get(name, "").strip()), None)


def _arguments() -> list[str]:
    """sys.argv, as it will be: while the interpreter starts, `python -m pkg.train` has only -m there."""
    if sys.argv[:1] == ["-m"] and "-m" in sys.orig_argv:
        return sys.orig_argv[sys.orig_argv.index("-m") + 1 :]
    return sys.argv


def _script(command: Sequence[str]) -> str:
    path = Path(command[0]) if command else Path()
    name = path.parent.name if path.name == "__main__.py" else path.name
    return name.removesuffix(".py") if name and name not in ("-c", "-m", "-") else "python"


# The job -------------------------------------------------------------------------------------------------------------


def _named(settings: Settings, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """(job id that the user or the scheduler gave, name of the job)."""
    elastic = _first(environ, ("TORCHELASTIC_RUN_ID",))
    elastic = None if elastic is None or elastic.lower() == "none" else elastic
    pods = _kubernetes_job(environ)
    schedulers = (
        (environ.get("TRAINING_JOB_NAME"), environ.get("TRAINING_JOB_NAME")),
        (environ.get("SLURM_JOB_ID"), environ.get("SLURM_JOB_NAME")),
        (pods, pods),
    )
    job_id, name = next(((job, name) for job, name in schedulers if job), (None, None))
    return settings.job_id or elastic or job_id, settings.job_id or name or elastic


def _kubernetes_job(environ: Mapping[str, str]) -> str | None:
    if not environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    if job := _first(environ, ("JOB_NAME",)):
        return job
    pod = _first(environ, ("POD_NAME", "HOSTNAME")) or ""
    index = environ.get("JOB_COMPLETION_INDEX", "")
    if index.isdecimal() and (match := re.fullmatch(rf"(.+)-{index}(?:-[a-z0-9]{{5}})?", pod)):
        return match[1]
    # With the host's network a pod is called as its node, and gpu-worker-0 says nothing of a job.
    match = _KUBEFLOW_POD.fullmatch(pod) if pod != _first(environ, ("NODE_NAME",)) else None
    return match[1] if match else None


def _local_id(ranks: Ranks, environ: Mapping[str, str], node: str, root: Path) -> str | None:
    """What all ranks of this node share and a rerun does not, if they are all ranks that there are."""
    if ranks.world_size is None or ranks.local_world_size != ranks.world_size:
        return None
    launcher = launcher_of(environ, root)
    return launcher and f"{node}-{sha256(f'{node} {launcher}'.encode()).hexdigest()[:12]}"


def _launch_id(ranks: Ranks, environ: Mapping[str, str]) -> str | None:
    """The id that tracelake-record made up, where it stands above the whole job."""
    return environ.get(LAUNCH_ID) if ranks.world_size in (None, 1) else None


def _attempt(settings: Settings, environ: Mapping[str, str]) -> int:
    """Restarts so far. A requeued Slurm job counts torchrun's restarts from 0 again, so both make one rising number."""
    if settings.attempt is not None:
        return settings.attempt
    elastic = _whole(environ.get("TORCHELASTIC_RESTART_COUNT")) or 0
    most = _whole(environ.get("TORCHELASTIC_MAX_RESTARTS")) or 0
    return (_whole(environ.get("SLURM_RESTART_COUNT")) or 0) * (max(most, elastic) + 1) + elastic


def _cloud_job_id(environ: Mapping[str, str], machine: Machine) -> str | None:
    pod = _first(environ, ("POD_NAME", "HOSTNAME")) if environ.get("KUBERNETES_SERVICE_HOST") else None
    in_pod = f"{machine.namespace}/{pod}" if pod and machine.namespace else pod
    return _first(environ, ("TRAINING_JOB_ARN", "TRAINING_JOB_NAME", "SLURM_JOB_ID")) or in_pod


# Its ranks -----------------------------------------------------------------------------------------------------------


def _ranks(settings: Settings, environ: Mapping[str, str], warnings: list[str]) -> Ranks:
    found = _launched(environ, warnings)
    ranks = Ranks(
        found.rank if settings.rank is None else settings.rank,
        found.world_size if settings.world_size is None else settings.world_size,
        found.local_rank if settings.local_rank is None else settings.local_rank,
        found.local_world_size,
    )
    if ranks.rank is not None and ranks.world_size is not None and ranks.rank >= ranks.world_size:
        warnings.append(
            f"rank {ranks.rank} of {ranks.world_size} cannot be: both are left out; "
            "set TRACELAKE_RANK (from 0) and TRACELAKE_WORLD_SIZE"
        )
        return Ranks(None, None, ranks.local_rank, ranks.local_world_size)
    return ranks


def _launched(environ: Mapping[str, str], warnings: list[str]) -> Ranks:
    for names in _LAUNCHERS:
        if not environ.get(names[0]) or (names[0] == "SLURM_PROCID" and not _is_slurm_task(environ)):
            continue
        rank = _whole(environ[names[0]])
        if rank is None:
            warnings.append(f"{names[0]}={hide(environ[names[0]])[:40]} is no rank; set TRACELAKE_RANK")
            continue
        world_size, local_rank = (_whole(environ.get(name)) for name in names[1:3])
        uniform = _UNIFORM_TASKS.fullmatch(environ.get(names[3], ""))
        return Ranks(rank, world_size or None, local_rank, _whole(uniform[1]) if uniform else None)
    return Ranks()


def _is_slurm_task(environ: Mapping[str, str]) -> bool:
    """Did srun start this process? A batch script has SLURM_PROCID=0 too, and whatever it starts would be rank 0."""
    step = _whole(environ.get("SLURM_STEP_ID"))
    return step is not None and step < 0xFFFFFFF0  # above are the batch script and its like


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,9}|4294967\d{3}", text.strip()) else None


# What else is known --------------------------------------------------------------------------------------------------


def _captured(environ: Mapping[str, str]) -> dict[str, str]:
    """Run ids of trackers and the scheduler's variables."""
    return {name: environ[name].strip() for name in (*_TRACKERS, *_ENVIRONMENT) if environ.get(name, "").strip()}


def _line(command: Sequence[str]) -> str:
    line = " ".join(command)
    return line if len(line) <= _LONGEST_COMMAND_COUNT else f"{line[:_LONGEST_COMMAND_COUNT]}…"
