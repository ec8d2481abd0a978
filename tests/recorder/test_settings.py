"""Settings: who wins, what is told, and that nothing wrong stops a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from tracelake.recorder.settings import (
    BadSetting,
    EverySteps,
    SecondRange,
    Settings,
    StepRange,
    environment_table,
    from_sagemaker,
    load,
    parse_windows,
)

MIB = 1024 * 1024


def test_nothing_given_is_the_defaults() -> None:
    settings, warnings = load(environ={})
    assert warnings == []
    assert settings == Settings()
    assert (settings.output, settings.raw_uri) == ("./lake", "./lake/raw/v1")
    assert (settings.sampling_interval_ms, settings.cpu_profiling_seconds, settings.windows) == (500, None, "all")
    assert (settings.memory_budget_bytes, settings.spool_budget_bytes) == (256 * MIB, 4096 * MIB)
    assert (settings.disk_reserve_bytes, settings.annotation_budget_count) == (512 * MIB, 1_000_000)
    assert (settings.segment_rows, settings.segment_seconds, settings.flush_ms) == (250_000, 600, 200)
    assert (settings.sidecar, settings.gpu, settings.enabled, settings.strict) == (True, True, True, False)
    assert settings.spool.name == f"tracelake-{os.getuid()}"


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().rank = 1  # type: ignore[misc]


def test_code_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "recorder.json"
    file.write_text('{"recorder": {"flush_ms": 300, "segment_rows": 30000, "project": "file"}}')
    environ = {"TRACELAKE_SEGMENT_ROWS": "20000", "TRACELAKE_PROJECT": "environment"}
    settings, warnings = load({"project": "code"}, file=file, environ=environ)
    assert warnings == []
    found = (settings.project, settings.segment_rows, settings.flush_ms, settings.sampling_interval_ms)
    assert found == ("code", 20_000, 300, 500)


SOUND: dict[str, tuple[str, Any]] = {
    "output": ("s3://bucket/lake", "s3://bucket/lake"),
    "job_id": ("job-1", "job-1"),
    "attempt": ("2", 2),
    "rank": ("3", 3),
    "world_size": ("8", 8),
    "local_rank": ("0", 0),
    "node": ("node-1", "node-1"),
    "project": ("vision", "vision"),
    "user": ("ada", "ada"),
    "family": ("resnet50", "resnet50"),
    "tags": ("team=vision, stage=pretrain", {"team": "vision", "stage": "pretrain"}),
    "hyperparameters": ('{"lr": 0.1, "amp": true, "layers": [1, 2]}', {"lr": "0.1", "amp": "true", "layers": "[1, 2]"}),
    "sampling_interval_ms": ("100", 100),
    "cpu_profiling_seconds": ("12.5", 12.5),
    "perf_counters": ("off", False),
    "perf_events": ("L2_MISS=r3f24", {"L2_MISS": "r3f24"}),
    "windows": ("every 500 steps record 5", EverySteps(500, 5)),
    "gpu": ("0", False),
    "graph_nodes": ("yes", True),
    "memory_budget_bytes": ("64 MiB", 64 * MIB),
    "spool_budget_bytes": ("1.5GiB", 1536 * MIB),
    "disk_reserve_bytes": ("0", 0),
    "annotation_budget_count": ("10", 10),
    "spool": ("/scratch/spool", Path("/scratch/spool")),
    "segment_rows": ("20000", 20_000),
    "segment_seconds": ("60", 60.0),
    "flush_ms": ("1000", 1000),
    "exit_wait_seconds": ("0", 0.0),
    "sidecar": ("false", False),
    "s3_endpoint_url": ("http://minio:9000", "http://minio:9000"),
    "s3_region": ("eu-west-1", "eu-west-1"),
    "strict": ("1", True),
    "enabled": ("0", False),
    "step_hooks": ("no", False),
}


def test_every_field_has_its_variable() -> None:
    assert list(SOUND) == [field.name for field in fields(Settings)]
    settings, warnings = load(environ={f"TRACELAKE_{name.upper()}": text for name, (text, _) in SOUND.items()})
    assert warnings == []
    assert {name: getattr(settings, name) for name in SOUND} == {name: value for name, (_, value) in SOUND.items()}


def test_everything_survives_json() -> None:
    settings, _ = load({name: text for name, (text, _) in SOUND.items()}, environ={})
    for each in (settings, Settings()):
        assert Settings.from_dict(json.loads(json.dumps(each.as_dict()))) == each
    assert Settings.from_dict({**settings.as_dict(), "of_the_future": 1}) == settings


BAD: list[tuple[str, object, str]] = [
    ("sampling_interval_ms", 99, "give a whole number from 100 to 60000"),
    ("sampling_interval_ms", "60001", "give a whole number from 100 to 60000"),
    ("sampling_interval_ms", "fast", "give a whole number from 100 to 60000"),
    ("sampling_interval_ms", True, "give a whole number from 100 to 60000"),
    ("sampling_interval_ms", float("nan"), "give a whole number from 100 to 60000"),
    ("sampling_interval_ms", [500], "give a whole number from 100 to 60000"),
    ("rank", "-1", "give a whole number from 0 to 2147483647"),
    ("rank", 1.5, "give a whole number from 0 to 2147483647"),
    ("cpu_profiling_seconds", 0, "give a number from 0.1 to 1000000000"),
    ("spool_budget_bytes", "4 GB", "give a number of bytes (256 MiB) from 1048576 to 1125899906842624"),
    ("segment_rows", "9" * 5000, "give a whole number from 1 to 100000000"),
    ("gpu", "maybe", "give 1 or 0"),
    ("gpu", 2, "give 1 or 0"),
    ("output", "gs://bucket", "give a folder or s3://bucket/prefix"),
    ("output", "s3://", "give a folder or s3://bucket/prefix"),
    ("job_id", 7, "give text"),
    ("job_id", " ", "give text"),
    ("tags", "team", 'give pairs: {"name": "value"} as JSON, or name=value,name=value'),
    ("tags", '{"team": ', 'give pairs: {"name": "value"} as JSON, or name=value,name=value'),
    ("tags", '{"a":' * 100_000, 'give pairs: {"name": "value"} as JSON, or name=value,name=value'),
    ("windows", "sometimes", "give all, none, every 500 steps record 5, steps 100-120 or seconds 60-120"),
    ("windows", "every 5 steps record 6", "record 1 to 5 steps of 5"),
    ("windows", "steps 120-100", "let the last step not come before the first"),
    ("windows", "seconds 60-60", "let the end come after the start"),
]


@pytest.mark.parametrize(("name", "value", "remedy"), BAD)
def test_a_bad_value_costs_one_warning_with_the_remedy(name: str, value: object, remedy: str) -> None:
    settings, warnings = load({name: value}, environ={})
    assert settings == Settings()
    (warning,) = warnings
    assert warning.startswith(f"{name}=")
    assert warning.endswith(f" is ignored: {remedy}")
    assert len(warning) < 220


@pytest.mark.parametrize(("name", "value", "remedy"), BAD)
def test_strict_raises_instead(name: str, value: object, remedy: str) -> None:
    with pytest.raises(BadSetting, match=name):
        load({name: value}, environ={}, strict=True)
    with pytest.raises(BadSetting, match=name):
        load({name: value}, environ={"TRACELAKE_STRICT": "1"})
    assert load({name: value}, environ={"TRACELAKE_STRICT": "1"}, strict=False)[0] == Settings()


def test_strict_is_kept_and_silent_where_all_is_well() -> None:
    assert load(environ={}, strict=True) == (Settings(strict=True), [])


def test_after_a_bad_value_the_next_source_counts() -> None:
    settings, warnings = load({"flush_ms": -1}, environ={"TRACELAKE_FLUSH_MS": "300"})
    assert settings.flush_ms == 300
    assert warnings == ["flush_ms=-1 is ignored: give a whole number from 10 to 60000"]


def test_unknown_keys_name_the_nearest_known_one() -> None:
    assert load({"tagz": {}, "colour": "red"}, environ={})[1] == [
        "tagz={} is ignored: no such setting; did you mean tags?",
        "colour='red' is ignored: no such setting",
    ]
    assert load(environ={"TRACELAKE_SAMPLE_INTERVAL_MS": "9"})[1] == [
        "TRACELAKE_SAMPLE_INTERVAL_MS='9' is ignored: no such setting; did you mean TRACELAKE_SAMPLING_INTERVAL_MS?"
    ]


def test_variables_of_other_parts_of_tracelake_are_left_alone() -> None:
    environ = {"TRACELAKE_JARS": "/jars", "TRACELAKE_LAUNCH_FOLDER": "/x", "TRACELAKE_SOMETHING_ELSE": "1", "TAGS": "x"}
    assert load(environ=environ) == (Settings(), [])


def test_empty_variables_and_none_count_as_unset() -> None:
    assert load({"rank": None}, environ={"TRACELAKE_JOB_ID": "", "TRACELAKE_GPU": " "}) == (Settings(), [])


def test_bytes_that_are_no_text_become_text() -> None:
    settings, _ = load({"tags": {"a": "\udcff"}}, environ={"TRACELAKE_JOB_ID": "job\udcff"})
    assert (settings.job_id, settings.tags) == ("job?", {"a": "?"})


def test_a_toml_file_has_a_recorder_table(tmp_path: Path) -> None:
    file = tmp_path / "conf.toml"
    file.write_text('[other]\nx = 1\n[recorder]\nflush_ms = 300\nflush = 1\n[recorder.tags]\nteam = "vision"\n')
    settings, warnings = load(environ={"TRACELAKE_CONFIG": str(file)})
    if sys.version_info >= (3, 11):
        assert (settings.flush_ms, settings.tags) == (300, {"team": "vision"})
        assert warnings == ["conf.toml: flush=1 is ignored: no such setting; did you mean flush_ms?"]
    else:
        assert warnings == [
            f"the settings file {file} is ignored: TOML needs Python 3.11; write the same as JSON into a .json file"
        ]


def test_a_json_file_may_be_the_table_itself(tmp_path: Path) -> None:
    file = tmp_path / "recorder.json"
    file.write_text('{"flush_ms": 300, "tags": {"team": "vision", "gpus": 8}}')
    settings, warnings = load(file=file, environ={})
    assert (settings.flush_ms, settings.tags, warnings) == (300, {"team": "vision", "gpus": "8"}, [])


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[1]", b"[" * 100_000, b'{"recorder": 1}', None])
@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_file_that_cannot_be_read_costs_one_warning(tmp_path: Path, content: bytes | None, suffix: str) -> None:
    file = tmp_path / f"recorder{suffix}"
    if content is not None:
        file.write_bytes(content)
    settings, warnings = load(file=file, environ={})
    assert settings == Settings()
    (warning,) = warnings
    assert warning.startswith(f"the settings file {file} is ignored: ")


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("all", "all"),
        (" None ", "none"),
        ("every 500 steps record 5", EverySteps(500, 5)),
        ("Steps 100 - 120", StepRange(100, 120)),
        ("seconds 60-120.5", SecondRange(60, 120.5)),
    ],
)
def test_windows(text: str, windows: object) -> None:
    assert parse_windows(text) == windows
    assert parse_windows(windows) == windows
    assert parse_windows(str(windows)) == windows


@pytest.mark.parametrize("text", ["", "steps 1", "steps -1-2", "every 0 steps record 0", "seconds 1e3-2e3", 5, None])
def test_windows_that_mean_nothing(text: object) -> None:
    with pytest.raises(ValueError, match=r"give all, none|record 1 to"):
        parse_windows(text)


def test_hyperparameters_of_sagemaker_are_a_default() -> None:
    environ = {"SM_HPS": '{"lr": 0.1, "hf_token": "hf_abcdefghijklmnop", "max_tokens": 4096}'}
    settings, warnings = load(environ=environ)
    assert settings.hyperparameters == {"lr": "0.1", "hf_token": "***", "max_tokens": "4096"}
    assert warnings == []
    assert load({"hyperparameters": {"lr": 1}}, environ=environ)[0].hyperparameters == {"lr": "1"}


def test_sagemaker_profiler_keys() -> None:
    given = from_sagemaker({"EnableCuda": "1", "EnableCpu": "0", "CpuProfilingDuration": "3600"})
    settings, warnings = load(given, environ={})
    assert (settings.gpu, settings.perf_counters, settings.cpu_profiling_seconds, warnings) == (True, False, 3600, [])
    assert load(from_sagemaker({"EnableCuda": "0"}), environ={})[0].gpu is False
    assert load(from_sagemaker({"DisableProfiler": "true"}), environ={})[0].enabled is False
    settings, warnings = load(from_sagemaker({"EnableNeuron": "1"}), environ={})
    assert (settings, warnings) == (Settings(), ["profiler.EnableNeuron='1' is ignored: no such setting"])


def test_secrets_stay_out_of_maps_and_warnings() -> None:
    given_tags = {"team": "vision", "api_key": "hunter2hunter2", "uri": "https://ada:hunter2hunter2@host/x"}
    settings, warnings = load({"tags": given_tags, "api_token": "hunter2hunter2"}, environ={})
    assert settings.tags == {"team": "vision", "api_key": "***", "uri": "https://***@host/x"}
    assert "hunter2" not in repr(settings) + repr(warnings)


@given(
    strategies.dictionaries(
        strategies.sampled_from([field.name for field in fields(Settings)]) | strategies.text(max_size=8),
        strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats() | strategies.text()
        | strategies.lists(strategies.integers()) | strategies.dictionaries(strategies.text(), strategies.text()),
    ),
    strategies.dictionaries(
        strategies.sampled_from([f"TRACELAKE_{name.upper()}" for name in SOUND]), strategies.text()
    ),
)  # fmt: skip
def test_nothing_given_ever_raises(values: dict[str, object], environ: dict[str, str]) -> None:
    settings, _ = load(values, environ=environ, strict=False)
    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


def test_the_table_names_every_variable() -> None:
    lines = environment_table().splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:-1]] == [f"TRACELAKE_{name.upper()}" for name in SOUND]
    assert "| TRACELAKE_WINDOWS | all |" in environment_table()


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, tracelake.recorder.settings, tracelake.recorder.identity; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "pynvml", "psutil", "boto3", "tempfile", "socket"} & set(ran.stdout.split())
