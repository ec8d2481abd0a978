"""The machine under a job, as far as variables and files tell: nothing is asked over the network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ARN = re.compile(r"arn:[\w-]+:sagemaker:([\w-]+):(\d{12}):training-job/.+")
_NODE_VARIABLES = ("NODE_NAME", "K8S_NODE_NAME", "KUBERNETES_NODE_NAME")
_LAUNCHED_VARIABLES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "OMPI_COMM_WORLD_RANK", "PMI_RANK",
)  # fmt: skip
_USER_VARIABLES = ("SLURM_JOB_USER", "USER", "LOGNAME")
_MOST_ANCESTORS_COUNT = 16


@dataclass(frozen=True)
class Machine:
    node: str
    instance_type: str | None = None
    instance_id: str | None = None
    account: str | None = None
    region: str | None = None
    namespace: str | None = None


def machine_of(environ: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """Node, instance, account, region and namespace; the cloud's parts only where it is plain that this is a cloud."""
    arn = _ARN.fullmatch(environ.get("TRAINING_JOB_ARN", ""))
    hardware = root / "sys/class/dmi/id"
    is_ec2 = _read(hardware / "sys_vendor") == "Amazon EC2"
    model, asset = (_read(hardware / "product_name"), _read(hardware / "board_asset_tag")) if is_ec2 else (None, None)
    region = environ.get("AWS_REGION") if is_ec2 or environ.get("TRAINING_JOB_NAME") else None
    account_folder = root / "var/run/secrets/kubernetes.io/serviceaccount"
    return Machine(
        node=next((environ[name] for name in _NODE_VARIABLES if environ.get(name)), os.uname().nodename),
        instance_type=_instance_type(environ, root) or model,
        instance_id=asset if asset and asset.startswith("i-") else _read(root / "var/lib/cloud/data/instance-id"),
        account=arn[2] if arn else None,
        region=arn[1] if arn else region or None,
        namespace=environ.get("POD_NAMESPACE") or _read(account_folder / "namespace"),
    )


def _instance_type(environ: Mapping[str, str], root: Path) -> str | None:
    """As SageMaker says it: in a variable, or in the file that the variable was made of."""
    if environ.get("SM_CURRENT_INSTANCE_TYPE"):
        return environ["SM_CURRENT_INSTANCE_TYPE"]
    for text in (environ.get("SM_RESOURCE_CONFIG"), _read(root / "opt/ml/input/config/resourceconfig.json")):
        found = _json(text).get("current_instance_type")
        if isinstance(found, str) and found:
            return found
    return None


def user_of(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Name of the user. A look-up by the C library could go over the network, so the file is read instead."""
    for name in _USER_VARIABLES:
        if environ.get(name):
            return environ[name]
    entries = (line.split(":") for line in (_read(root / "etc/passwd") or "").splitlines())
    return next((entry[0] for entry in entries if len(entry) > 2 and entry[2] == str(os.getuid())), None)


def launcher_of(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """The process that started all ranks of this node: boot, process id and start; None where /proc does not say.

    Parents that carry this rank themselves (a shell around the script, tracelake-record) are passed by.
    """
    own = {f"{name}={environ[name]}" for name in _LAUNCHED_VARIABLES if environ.get(name)}
    process_id = os.getppid()
    for _ in range(_MOST_ANCESTORS_COUNT):
        folder = root / "proc" / str(process_id)
        status = (_read(folder / "stat") or "").rpartition(")")[2].split()
        if len(status) < 20:
            return None
        variables = set((_read(folder / "environ") or "").split("\0"))
        if not own or not own <= variables or status[1] == "0":
            boot = _read(root / "proc/sys/kernel/random/boot_id")
            return f"{boot} {process_id} {status[19]}"
        process_id = int(status[1])
    return None


def _read(path: Path) -> str | None:
    """A small file's text; None where there is none, or not for us."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def _json(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
