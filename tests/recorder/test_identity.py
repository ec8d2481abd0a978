"""Identity: ranks that look for themselves agree, nothing is guessed, and no secret gets out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, strategies

from tracelake.recorder.identity import Identity, family_of, find
from tracelake.recorder.redact import hide, hide_command, is_secret
from tracelake.recorder.settings import Settings

NOWHERE = Path("/nonexistent")  # no files: only the variables of the test count
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
SLURM = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "llama-7b", "SLURM_STEP_ID": "0"}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def identity(
    environ: Mapping[str, str], settings: Settings | None = None, arguments: tuple[str, ...] = ("train.py",)
) -> Identity:
    return find(settings or Settings(), environ, arguments=arguments, root=NOWHERE)


def ranks(found: Identity) -> tuple[int | None, int | None, int | None, int | None]:
    return (found.rank, found.world_size, found.local_rank, found.local_world_size)


# Job id ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "job_id"),
    [
        ({"TORCHELASTIC_RUN_ID": "llama"}, "llama"),
        ({"TORCHELASTIC_RUN_ID": "llama", **SLURM}, "llama"),
        ({"TORCHELASTIC_RUN_ID": "none", "TRAINING_JOB_NAME": "sm-job", **SLURM}, "sm-job"),
        ({"TORCHELASTIC_RUN_ID": "", **SLURM}, "4711"),
        ({**SLURM, **POD, "JOB_NAME": "kube"}, "4711"),
        ({**POD, "JOB_NAME": "kube", "HOSTNAME": "other-3-abcde", "JOB_COMPLETION_INDEX": "3"}, "kube"),
        ({**POD, "HOSTNAME": "bert-large-3", "JOB_COMPLETION_INDEX": "3"}, "bert-large"),
        ({**POD, "HOSTNAME": "bert-large-3-x7k2p", "JOB_COMPLETION_INDEX": "3"}, "bert-large"),
        ({**POD, "POD_NAME": "bert-master-0", "HOSTNAME": "node-7"}, "bert"),
        ({**POD, "HOSTNAME": "bert-worker-12"}, "bert"),
    ],
)
def test_job_id_from_launcher_and_scheduler(environ: dict[str, str], job_id: str) -> None:
    found = identity(environ)
    assert (found.job_id, found.is_named, found.warnings) == (job_id, True, ())


def test_the_setting_beats_everything() -> None:
    found = identity({"TORCHELASTIC_RUN_ID": "llama", **SLURM}, Settings(job_id="mine", node="n1", attempt=4))
    assert (found.job_id, found.node_id, found.attempt, found.is_named) == ("mine", "n1", 4, True)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TORCHELASTIC_RUN_ID": "none"},
        {"HOSTNAME": "bert-worker-12"},
        {**POD, "HOSTNAME": "gpu-worker-0", "NODE_NAME": "gpu-worker-0"},
        {**POD, "HOSTNAME": "bert-3-x7k2p"},
        {**POD, "HOSTNAME": "bert-3", "JOB_COMPLETION_INDEX": "4"},
        {"JOB_NAME": "of-a-build-server"},
        {**TORCHRUN, "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "2"},
    ],
)
def test_else_an_id_is_made_up_and_told(environ: dict[str, str]) -> None:
    found, again = identity(environ), identity(environ)
    assert re.fullmatch(r"train-\d{8}T\d{6}Z-[0-9a-f]{6}", found.job_id)
    assert found.job_id != again.job_id
    assert not found.is_named
    assert found.family == "train"
    assert found.warnings == (
        f"the job has no id that its ranks share: {found.job_id} was made up; set TRACELAKE_JOB_ID",
    )


SCRIPT = """
import json, sys
from dataclasses import asdict
from tracelake.recorder.identity import find
from tracelake.recorder.settings import Settings
print(json.dumps(asdict(find(Settings()))))
"""
LAUNCHER = """
import os, subprocess, sys
wrapped, script = sys.argv[1:]
ranks = []
for rank in "012":
    environ = {**os.environ, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3",
               "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "1"}
    command = [sys.executable, "-c", script]
    if rank in wrapped:
        command = ["/bin/sh", "-c", '"$@"; exit $?', "wrapper", *command]
    ranks.append(subprocess.Popen(command, env=environ))
sys.exit(max(rank.wait() for rank in ranks))
"""


def launch(wrapped: str, **more: str) -> list[dict[str, object]]:
    """Three real ranks under a real launcher, some of them under a shell of their own, as torchrun would start them."""
    environ = {"PATH": os.environ["PATH"], **more}
    command = [sys.executable, "-c", LAUNCHER, wrapped, SCRIPT]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
    return sorted((json.loads(line) for line in ran.stdout.splitlines()), key=lambda found: int(found["rank"]))


@pytest.mark.parametrize("wrapped", ["", "1", "012"])
def test_ranks_of_one_launcher_agree_and_a_rerun_differs(wrapped: str) -> None:
    first, second = launch(wrapped), launch(wrapped)
    assert [found["rank"] for found in first] == [0, 1, 2]
    (job_id,) = {found["job_id"] for found in first}
    (other_id,) = {found["job_id"] for found in second}
    assert job_id != other_id
    assert re.fullmatch(re.escape(os.uname().nodename) + r"-[0-9a-f]{12}", str(job_id))
    assert {(found["is_named"], found["attempt"], found["world_size"]) for found in first} == {(True, 1, 3)}
    assert all(found["warnings"] == [] for found in first)


def test_a_launcher_that_has_a_rank_itself_is_not_passed_by() -> None:
    assert len({found["job_id"] for found in launch("1", RANK="0", LOCAL_RANK="0")}) == 1


# Ranks and attempts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (None, None, None, None)),
        (TORCHRUN, (3, 8, 1, 2)),
        ({**SLURM, "SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "SLURM_TASKS_PER_NODE": "4(x4)"},
         (5, 16, 1, 4)),
        ({**SLURM, "SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_TASKS_PER_NODE": "4,2"}, (5, 6, None, None)),
        ({**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "1", **TORCHRUN}, (3, 8, 1, 2)),
        ({"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (None, None, None, None)),
        ({**SLURM, "SLURM_STEP_ID": "4294967291", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (None, None, None, None)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
          "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, (2, 4, 0, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2, None, None)),
        ({"RANK": "1"}, (1, None, None, None)),
        ({**POD, "HOSTNAME": "bert-3", "JOB_COMPLETION_INDEX": "3"}, (None, None, None, None)),
    ],
)  # fmt: skip
def test_ranks(environ: dict[str, str], expected: tuple[int | None, ...]) -> None:
    assert ranks(identity(environ)) == expected


def test_settings_state_ranks_one_by_one() -> None:
    found = identity(TORCHRUN, Settings(rank=0, local_rank=0))
    assert ranks(found) == (0, 8, 0, 2)


def test_a_rank_that_cannot_be_is_left_out_and_told() -> None:
    found = identity({**SLURM, "RANK": "8", "WORLD_SIZE": "8"})
    assert ranks(found) == (None, None, None, None)
    assert found.warnings == (
        "rank 8 of 8 cannot be: both are left out; set TRACELAKE_RANK (from 0) and TRACELAKE_WORLD_SIZE",
    )
    found = identity({**SLURM, "RANK": "first"})
    assert ranks(found) == (None, None, None, None)
    assert found.warnings == ("RANK=first is no rank; set TRACELAKE_RANK",)


@pytest.mark.parametrize(
    ("environ", "attempt"),
    [
        ({}, 0),
        ({"TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_MAX_RESTARTS": "3"}, 2),
        ({"SLURM_RESTART_COUNT": "1"}, 1),
        # A requeue after four tries under torchrun, the first of the next four.
        ({"SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "3"}, 4),
        ({"SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "3", "TORCHELASTIC_MAX_RESTARTS": "3"}, 7),
        ({"SLURM_RESTART_COUNT": "many"}, 0),
    ],
)
def test_attempt(environ: dict[str, str], attempt: int) -> None:
    assert identity(environ).attempt == attempt


@pytest.mark.parametrize("shared", [SLURM, {"TORCHELASTIC_RUN_ID": "x"}, {"TRAINING_JOB_NAME": "sm"}])
def test_two_ranks_that_look_for_themselves_agree(shared: dict[str, str]) -> None:
    one = identity({**shared, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"})
    two = identity({**shared, "RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2"})
    assert (one.job_id, one.attempt, one.world_size, one.family) == (
        two.job_id,
        two.attempt,
        two.world_size,
        two.family,
    )
    assert (one.rank, two.rank) == (0, 1)


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("llama-7b-2026-11-29-10-30-11-123", "llama-7b"),
        ("llama-7b", "llama-7b"),
        ("resnet50", "resnet50"),
        ("resnet50-run-12", "resnet50"),
        ("resnet50_run12", "resnet50"),
        ("resnet50-dry-run", "resnet50-dry-run"),
        ("bert.trial_3", "bert"),
        ("vit-l16-20261129T103011Z", "vit-l16"),
        ("vit-2026-11-29T10:30:11Z", "vit"),
        ("vit-123e4567-e89b-12d3-a456-426614174000", "vit"),
        ("vit-3f9a2c1", "vit"),
        ("vit-facade", "vit-facade"),
        ("mixtral-8x7b-seed-42", "mixtral-8x7b"),
        ("gpt-2", "gpt"),
        ("llama-v2", "llama-v2"),
        ("train-20261129T103011Z-3f9a2c", "train"),
        ("4711", None),
        ("123e4567-e89b-12d3-a456-426614174000", None),
        ("", None),
    ],
)
def test_family_is_the_name_without_its_run_suffix(name: str, family: str | None) -> None:
    assert family_of(name) == family


@given(strategies.text())
def test_a_family_is_its_own_family(name: str) -> None:
    family = family_of(name)
    assert family is None or family_of(family) == family


@pytest.mark.parametrize(
    ("environ", "settings", "family"),
    [
        (SLURM, Settings(), "llama-7b"),
        ({"SLURM_JOB_ID": "7"}, Settings(), "train"),
        ({"TRAINING_JOB_NAME": "bert-2026-11-29-10-30-11-123"}, Settings(), "bert"),
        ({"TORCHELASTIC_RUN_ID": "123e4567-e89b-12d3-a456-426614174000", **SLURM}, Settings(), "llama-7b"),
        ({"TORCHELASTIC_RUN_ID": "bert-7"}, Settings(), "bert"),
        (SLURM, Settings(job_id="mine-3"), "mine"),
        (SLURM, Settings(job_id="mine-3", family="ours"), "ours"),
    ],
)
def test_where_the_family_comes_from(environ: dict[str, str], settings: Settings, family: str) -> None:
    assert identity(environ, settings).family == family


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("/code/train.py", "--lr", "1"), "train"),
        (("/code/trainer/__main__.py",), "trainer"),
        (("-c",), "python"),
        (("",), "python"),
        ((), "python"),
        (("/usr/bin/trainer",), "trainer"),
    ],
)
def test_process_name(arguments: tuple[str, ...], name: str) -> None:
    found = identity({}, arguments=arguments)
    assert (found.process_name, found.process_id) == (name, os.getpid())


def test_node_is_the_setting_or_kubernetes_or_the_host() -> None:
    assert identity({}).node_id == os.uname().nodename
    assert identity({"NODE_NAME": "gpu-17"}).node_id == "gpu-17"
    assert identity({"NODE_NAME": "gpu-17"}, Settings(node="mine")).node_id == "mine"


def test_user_and_project() -> None:
    assert identity({"USER": "ada", "SLURM_JOB_USER": "grace", "WANDB_PROJECT": "vision"}).user == "grace"
    found = identity({"USER": "ada", "WANDB_PROJECT": "vision", "SLURM_JOB_ACCOUNT": "physics"})
    assert (found.user, found.project) == ("ada", "vision")
    found = identity({"USER": "ada", "WANDB_PROJECT": "vision"}, Settings(user="me", project="ours"))
    assert (found.user, found.project) == ("me", "ours")
    assert (identity({}).user, identity({}).project) == (None, None)


def test_user_from_the_file_where_no_variable_says(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"daemon:x:99999:1::/:/bin/sh\nada:x:{os.getuid()}:1::/:/bin/sh\n")
    assert find(Settings(), {}, arguments=(), root=tmp_path).user == "ada"


# Machines -------------------------------------------------------------------------------------------------------------


def test_sagemaker() -> None:
    arn = "arn:aws:sagemaker:eu-west-1:123456789012:training-job/bert-1"
    found = identity(
        {"TRAINING_JOB_NAME": "bert-1", "TRAINING_JOB_ARN": arn, "SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge"}
    )
    assert (found.cloud_account, found.cloud_region, found.cloud_job_id) == ("123456789012", "eu-west-1", arn)
    assert found.instance_type == "ml.p4d.24xlarge"
    config = {"current_host": "algo-1", "current_instance_type": "ml.g5.xlarge"}
    assert identity({"SM_RESOURCE_CONFIG": json.dumps(config)}).instance_type == "ml.g5.xlarge"
    assert identity({"SM_RESOURCE_CONFIG": "{", "TRAINING_JOB_ARN": "x"}).instance_type is None


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_ec2_tells_itself_by_files(tmp_path: Path) -> None:
    hardware = tmp_path / "sys/class/dmi/id"
    write(hardware / "sys_vendor", "Amazon EC2\n")
    write(hardware / "product_name", "p5.48xlarge\n")
    write(hardware / "board_asset_tag", "i-0123456789abcdef0\n")
    found = find(Settings(), {"AWS_REGION": "us-east-1"}, arguments=(), root=tmp_path)
    assert (found.instance_type, found.instance_id) == ("p5.48xlarge", "i-0123456789abcdef0")
    assert (found.cloud_region, found.cloud_account) == ("us-east-1", None)


def test_a_machine_of_ones_own_is_no_instance(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/dmi/id/sys_vendor", "Dell Inc.\n")
    write(tmp_path / "sys/class/dmi/id/product_name", "PowerEdge\n")
    found = find(Settings(), {"AWS_REGION": "us-east-1"}, arguments=(), root=tmp_path)
    assert (found.instance_type, found.instance_id, found.cloud_region) == (None, None, None)


def test_kubernetes_and_cloud_init_files(tmp_path: Path) -> None:
    write(tmp_path / "var/lib/cloud/data/instance-id", "vm-7\n")
    write(tmp_path / "var/run/secrets/kubernetes.io/serviceaccount/namespace", "ml")
    found = find(Settings(), {**POD, "HOSTNAME": "bert-worker-0"}, arguments=(), root=tmp_path)
    assert (found.instance_id, found.cloud_job_id) == ("vm-7", "ml/bert-worker-0")


# Tags and secrets -----------------------------------------------------------------------------------------------------


def test_tags_hold_run_ids_and_the_command_line() -> None:
    environ = {
        **SLURM,
        "MLFLOW_RUN_ID": "9b1c",
        "MLFLOW_TRACKING_URI": "https://ada:hunter2@mlflow:5000/x",
        "WANDB_RUN_ID": "3k9f",
        "WANDB_API_KEY": "0123456789abcdef",
        "COMET_EXPERIMENT_KEY": "c0ffee",
        "HOME": "/home/ada",
    }
    arguments = ("train.py", "--lr", "0.1", "--max-tokens", "4096", "--hf-token", "hunter2", "--wandb=0123456789abcdef")
    assert identity(environ, Settings(tags={"team": "vision", "WANDB_RUN_ID": "mine"}), arguments).tags == {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "llama-7b",
        "SLURM_STEP_ID": "0",
        "MLFLOW_RUN_ID": "9b1c",
        "MLFLOW_TRACKING_URI": "https://***@mlflow:5000/x",
        "COMET_EXPERIMENT_KEY": "c0ffee",
        "WANDB_RUN_ID": "mine",
        "team": "vision",
        "command": "train.py --lr 0.1 --max-tokens 4096 --hf-token *** --wandb=***",
    }


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--password", "-x9", "train", "--lr", "1"], ["--password", "***", "train", "--lr", "1"]),
        (["--api-keys", "a", "b", "--lr", "1"], ["--api-keys", "***", "***", "--lr", "1"]),
        (["--use-auth-token", "--password", "p"], ["--use-auth-token", "***", "***"]),
        (["model.api_key=abc"], ["model.api_key=***"]),
        (["--config={'secret': 'a b', 'lr': 1}"], ["--config={'secret': '***"]),
        (["--url=http://h/x?token=abc&y=1"], ["--url=http://h/x?token=***"]),
        (["--launch", "x.py --token abc"], ["--launch", "x.py --token ***"]),
        (["--header", "Bearer abcdef"], ["--header", "***"]),
        (["--x", "sk-abcdefghijklmnopqrst"], ["--x", "***"]),
        (["db://u:p/w@x@host/d"], ["db://***@host/d"]),
        (["s3://bucket/a", "--tokenizer=bpe", "--key_dim=64"], ["s3://bucket/a", "--tokenizer=bpe", "--key_dim=64"]),
        (["--tokens=4096,password=x"], ["--tokens=4096,password=***"]),
    ],
)
def test_command_lines_without_secrets(arguments: list[str], shown: list[str]) -> None:
    assert hide_command(arguments) == shown


def test_long_words_cost_little() -> None:
    for text in ("a" * 200_000, "a." * 100_000, "-" * 100_000, "a=" * 20_000):
        assert hide(text) == text


SECRET = strategies.from_regex(r"[A-Za-z0-9_+/!-]{10,30}", fullmatch=True).map(lambda text: f"Q{text}Z")
SECRET_NAME = strategies.builds(
    "{}{}{}".format,
    strategies.sampled_from(["", "my_", "HF_", "aws-", "model.", "the"]),
    strategies.sampled_from(["token", "secret", "password", "api_key", "credential", "KEY", "Token", "passwd"]),
    strategies.sampled_from(["", "_file", "-1", "s", ".x"]),
)
FORM = strategies.sampled_from(
    [
        "--{n}={s}", "--{n} {s}", "-{n} {s}", "{n}={s}", "+{n}={s}", "--x={n}:{s}", '--x={{"{n}":"{s}"}}',
        "--x={n}={s},y=1", "--url=https://u:{s}@h/p", "https://{s}@h/p", "--u=http://h/?a=1&{n}={s}",
    ]
)  # fmt: skip


@given(SECRET, SECRET_NAME, FORM, strategies.booleans(), strategies.sampled_from(["WANDB_NAME", "SLURM_JOB_NAME"]))
def test_no_secret_gets_out(secret: str, name: str, form: str, in_environment: bool, captured: str) -> None:
    assert is_secret(name, secret)
    environ = {
        "SLURM_JOB_ID": "1",
        "MLFLOW_TRACKING_URI": f"https://ada:{secret}@mlflow",
        "WANDB_PROJECT": f"https://{secret}@h",
    }
    arguments = ["train.py", "--lr", "1", *form.format(n=name, s=secret).split(" "), "--last", "1"]
    if in_environment:
        environ[name] = secret
        environ[captured] = f"run with {secret}"
        arguments.append(f"--harmless={secret}")
    found = find(Settings(tags={name: secret, "x": f"{name}={secret}"}), environ, arguments=arguments, root=NOWHERE)
    assert secret not in json.dumps(asdict(found))
