"""The files for Kubernetes and EMR can be read, and name what the program has. They are not run here."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

CONF = Path(__file__).parents[2] / "conf"
PROPERTIES = sorted(CONF.glob("*/spark.properties"))


@pytest.mark.parametrize("path", PROPERTIES, ids=lambda path: path.parent.name)
def test_properties_are_sparks_and_each_is_given_once(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    names = [line.split()[0] for line in lines]
    assert all(len(line.split()) == 2 and line.startswith("spark.") for line in lines)
    assert len(set(names)) == len(names)
    # Those that a session needs wherever it runs are set by the program, once.
    assert not [name for name in names if "extensions" in name or "catalog" in name]


def test_kubernetes_accounts_are_those_of_the_properties() -> None:
    objects = list(yaml.safe_load_all((CONF / "kubernetes/access.yaml").read_text()))
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    properties = (CONF / "kubernetes/spark.properties").read_text()
    assert set(re.findall(r"serviceAccountName\s+(\S+)", properties)) == accounts
    (binding,) = [each for each in objects if each["kind"] == "RoleBinding"]
    assert [subject["name"] for subject in binding["subjects"]] == ["tracelake-driver"]


def test_emr_files_name_each_other() -> None:
    cluster = json.loads((CONF / "emr/cluster.json").read_text())
    (step,) = cluster["Steps"]
    bootstrap = (CONF / "emr/bootstrap.sh").read_text()
    for name in ("submit.py", "spark.properties"):
        assert f"/opt/tracelake/{name}" in step["HadoopJarStep"]["Args"] and name in bootstrap
    subprocess.run(["bash", "-n", str(CONF / "emr/bootstrap.sh")], check=True)


def test_the_roles_have_policies() -> None:
    named = set(re.findall(r"conf/iam/(\w+)\.json", "".join(path.read_text() for path in CONF.glob("*/*"))))
    assert named and all((CONF / f"iam/{name}.json").is_file() for name in named)
