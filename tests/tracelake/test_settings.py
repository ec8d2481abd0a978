"""Settings: the conf file, then options; what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelake.pipelines.parameters import Parameters
from tracelake.reports.publish.settings import MlflowOptions, WandbOptions, WebhookOptions
from tracelake.schemas.bucket import Bucket, S3Options
from tracelake.schemas.storage import Folder
from tracelake.settings import BadSettings, load

ROOT = Path(__file__).parents[2]


def test_the_conf_of_the_repository_holds_the_defaults() -> None:
    found, defaults = load(ROOT / "conf" / "tracelake.toml", None), load(None, None)
    assert Path(found.lake) == Path(defaults.lake)
    assert (found.s3, found.wait_seconds, found.spark, found.retention) == (S3Options(), None, {}, {})
    assert found.publish == defaults.publish
    assert isinstance(found.storage, Folder)


def test_targets_are_set_up_by_their_tables(tmp_path: Path) -> None:
    """As the file of the repository shows them, with its defaults."""
    shown = (ROOT / "conf" / "tracelake.toml").read_text().partition("# [publish.mlflow]")
    lines = [line.removeprefix("# ") for line in f"{shown[1]}{shown[2]}".splitlines()]
    (tmp_path / "c.toml").write_text("\n".join(line for line in lines if not line.startswith("url_env")))
    found = load(tmp_path / "c.toml", None).publish
    assert found.mlflow == MlflowOptions("http://mlflow.example.org:5000")
    assert found.wandb == WandbOptions()
    assert found.webhook == WebhookOptions("https://example.org/hook")


def test_a_bucket_of_another_server(tmp_path: Path) -> None:
    conf = tmp_path / "s3.toml"
    conf.write_text(
        '[lake]\npath = "s3://bucket/some/lake"\nwait_seconds = 0\n'
        '[s3]\nendpoint_url = "http://127.0.0.1:7070"\nregion = "eu-central-1"\n'
    )
    found = load(conf, None)
    assert found.wait_seconds == 0 and isinstance(found.storage, Bucket)
    assert (found.storage.name, found.storage.connection.options.in_path) == ("s3://bucket/some/lake", True)
    assert load(conf, "s3://other/").storage.name == "s3://other"
    assert isinstance(load(conf, tmp_path).storage, Folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[s3]\nsecret = "x"', r"s3\.toml: \[s3\]: no setting secret; there are endpoint_url, region, path_style"),
        ('[s3]\npath_style = "yes"', r"\[s3\]: path_style = 'yes'; give true or false"),
        ("[lake]\nwait_seconds = -1", r"\[lake\]: wait_seconds = -1; give seconds, 0 for not at all"),
        ('[lake]\nwhere = "x"', r"\[lake\]: no setting where; there are path, wait_seconds"),
        ('[lake]\npath = "gs://bucket"', "gs://bucket: give a folder or s3://bucket/prefix"),
        ("[lakes]", r"no table \[lakes\]"),
        ("[publish.mlflow]", r"s3\.toml: \[publish\.mlflow\]: set tracking_uri"),
        ('[publish]\nurl = "x"', r"\[publish\]: no setting url; there are base_url"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s3.toml").write_text(text)
    with pytest.raises(BadSettings, match=said):
        load(tmp_path / "s3.toml", None)


def test_only_aggregates_can_be_left_out() -> None:
    given = {"left_out_tables": ["aggregates.what_if"]}
    assert Parameters.from_mapping(given).left_out_tables == ("aggregates.what_if",)
    with pytest.raises(ValueError, match="is no table of the aggregates"):
        Parameters.from_mapping({"left_out_tables": ["normalized.kernels"]})
    with pytest.raises(ValueError, match=r"fleet_daily reads aggregates\.idle_causes; leave it out too"):
        Parameters.from_mapping(
            {"left_out_tables": ["aggregates.idle_causes", "aggregates.findings", "aggregates.outlier_steps"]}
        )
