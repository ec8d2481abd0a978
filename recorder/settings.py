"""What the recorder is told: by code, over TRACELAKE_* variables, over a file, over SageMaker's, over the defaults.

Every field of `Settings` has a variable of its name (`TRACELAKE_SAMPLING_INTERVAL_MS`); `environment_table` lists them.
An empty variable counts as unset. Bad input costs one warning that names key, value and remedy, and what comes next in
that order is used: a slip of the pen must not end a training job. `strict` raises `BadSetting` instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from tracelake.recorder.redact import hide
from tracelake.recorder.values import (
    GIB,
    MIB,
    SWITCHES,
    Number,
    default_spool,
    read_folder,
    read_map,
    read_notes,
    read_output,
    read_switch,
    read_text,
)
from tracelake.recorder.windows import EverySteps, SecondRange, StepRange, Windows, parse_windows

__all__ = [
    "BadSetting",
    "EverySteps",
    "SecondRange",
    "Settings",
    "StepRange",
    "Windows",
    "environment_table",
    "from_sagemaker",
    "load",
    "parse_windows",
]

ENVIRONMENT_PREFIX = "TRACELAKE_"
FILE_VARIABLE = "TRACELAKE_CONFIG"
_OPPOSITE = {text: not is_on for text, is_on in SWITCHES.items()}
_LONGEST_SHOWN_COUNT = 80
_OTHER_VARIABLES = frozenset({FILE_VARIABLE, "TRACELAKE_JARS", "TRACELAKE_LAUNCH_FOLDER", "TRACELAKE_LAUNCH_ID"})
_SAGEMAKER = {
    "enablecuda": "gpu",
    "enablecpu": "perf_counters",
    "disableprofiler": "enabled",  # the opposite
    "cpuprofilingduration": "cpu_profiling_seconds",
    "profilingintervalinmilliseconds": "sampling_interval_ms",
    "s3outputpath": "output",
}


class BadSetting(ValueError):
    """A setting that cannot be used, raised only where `strict` asks for it."""


def _setting(read: Any, default: Any, meaning: str) -> Any:
    about = {"read": read, "meaning": meaning}
    return (
        field(default_factory=default, metadata=about) if callable(default) else field(default=default, metadata=about)
    )


_COUNT = Number(0, 2**31 - 1)


@dataclass(frozen=True)
class Settings:
    """All that can be set. Built by `load`; the maps are not to be changed."""

    output: str = _setting(read_output, "./lake", "The lake: a folder or s3://bucket/prefix; raw/v1 in it is written")
    job_id: str | None = _setting(read_text, None, "Id of the job, the same for all its ranks; else from the launcher")
    attempt: int | None = _setting(_COUNT, None, "Restarts of the job so far; else from the launcher")
    rank: int | None = _setting(_COUNT, None, "Rank of this process; else from the launcher")
    world_size: int | None = _setting(Number(1, 2**31 - 1), None, "Number of ranks; else from the launcher")
    local_rank: int | None = _setting(_COUNT, None, "Rank on its node; else from the launcher")
    node: str | None = _setting(read_text, None, "Name of the node; else its host name")
    project: str | None = _setting(read_text, None, "Project of the job; else the experiment tracker's")
    user: str | None = _setting(read_text, None, "Owner of the job; else the user of the process")
    family: str | None = _setting(read_text, None, "Name that reruns share; else the job's without its suffix")
    tags: Mapping[str, str] = _setting(read_notes, dict, "Tags, as JSON or name=value,name=value")
    hyperparameters: Mapping[str, str] = _setting(read_notes, dict, "Hyperparameters, likewise; else SM_HPS")
    sampling_interval_ms: int = _setting(Number(100, 60_000), 500, "Interval of GPU, CPU and node metrics")
    cpu_profiling_seconds: float | None = _setting(
        Number(0.1, 1e9, is_whole=False), None, "CPU metrics are taken this long; the whole job if unset"
    )
    perf_counters: bool = _setting(read_switch, True, "CPU hardware counters")
    perf_events: Mapping[str, str] = _setting(read_map, dict, "More CPU counters: name=raw event (L2_MISS=r3f24)")
    windows: Windows = _setting(  # noqa: RUF009 -- a field
        parse_windows, "all", "When to record: all, none, every 500 steps record 5, steps 100-120, seconds 60-120"
    )
    gpu: bool = _setting(read_switch, True, "GPU events (kernels, copies, launches)")
    graph_nodes: bool = _setting(read_switch, True, "Kernels in CUDA graphs one by one; 0: a graph as one event")
    memory_budget_bytes: int = _setting(Number(MIB, 1 << 40, is_size=True), 256 * MIB, "Most memory in the job")
    spool_budget_bytes: int = _setting(Number(MIB, 1 << 50, is_size=True), 4 * GIB, "Most disk for the spool")
    disk_reserve_bytes: int = _setting(Number(0, 1 << 50, is_size=True), 512 * MIB, "Disk that always stays free")
    annotation_budget_count: int = _setting(Number(1, 10**9), 1_000_000, "Most annotations buffered per thread")
    spool: Path = _setting(  # noqa: RUF009 -- a field
        read_folder, default_spool, "Spool folder, on a local disk; else <temporary folder>/tracelake-<uid>"
    )
    segment_rows: int = _setting(Number(1, 10**8), 250_000, "Rows of a Parquet segment")
    segment_seconds: float = _setting(Number(0.1, 86_400, is_whole=False), 600.0, "Longest until data shows")
    flush_ms: int = _setting(Number(10, 60_000), 200, "Interval of writing to the spool")
    exit_wait_seconds: float = _setting(Number(0, 3_600, is_whole=False), 10.0, "Longest wait for delivery at exit")
    sidecar: bool = _setting(read_switch, True, "Convert and deliver in a second process; 0: in a thread of the job")
    s3_endpoint_url: str | None = _setting(read_text, None, "Endpoint of an S3-compatible store")
    s3_region: str | None = _setting(read_text, None, "Region of the bucket")
    strict: bool = _setting(read_switch, False, "Raise on bad settings and failures instead of warning")
    enabled: bool = _setting(read_switch, True, "0 turns everything off")
    step_hooks: bool = _setting(read_switch, True, "Find steps by itself where the script marks none")

    @property
    def raw_uri(self) -> str:
        """Where recordings go: <output>/raw/v1."""
        return f"{self.output.rstrip('/')}/raw/v1"

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it; `from_dict` makes the same settings of it."""
        held = {item.name: getattr(self, item.name) for item in fields(self)}
        maps = {name: dict(value) for name, value in held.items() if isinstance(value, Mapping)}
        return {**held, **maps, "windows": str(self.windows), "spool": str(self.spool)}

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> Settings:
        """The settings that `as_dict` described; what another version added is left out. Raises ValueError."""
        known = {item.name: held[item.name] for item in fields(cls) if item.name in held}
        return cls(**{**known, "windows": parse_windows(held["windows"]), "spool": Path(held["spool"])})


_FIELDS = {item.name: item for item in fields(Settings)}
_Layer = dict[str, tuple[str, object]]  # field name → (what its source calls it, what it says)


def load(
    given: Mapping[str, object] | None = None,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    strict: bool | None = None,
) -> tuple[Settings, list[str]]:
    """The settings, and one warning for each thing that was ignored. A None in `given` counts as not given.

    Raises BadSetting, naming everything at once, only where `strict` (else the setting of that name) is on.
    """
    warnings: list[str] = []
    layers: list[_Layer] = [
        _known(given or {}, "", warnings),
        _environment(environ, warnings),
        _file(file, environ, warnings),
        {"hyperparameters": ("SM_HPS", environ.get("SM_HPS") or None)},
    ]
    if strict is not None:
        layers.insert(0, {"strict": ("strict", strict)})
    values = {name: _first_sound(name, layers, warnings) for name in _FIELDS}
    settings = Settings(**{name: value for name, value in values.items() if value is not None})
    if warnings and settings.strict:
        raise BadSetting("; ".join(warnings))
    return settings, warnings


def _first_sound(name: str, layers: list[_Layer], warnings: list[str]) -> Any:
    """The value of the first source that gives a sound one; None leaves the default."""
    for layer in layers:
        label, value = layer.get(name, (name, None))
        if value is None:
            continue
        try:
            return _FIELDS[name].metadata["read"](value)
        except (ValueError, TypeError, RecursionError) as error:
            warnings.append(f"{_shown(label, value)} is ignored: {error}")
    return None


def _shown(label: str, value: object) -> str:
    text = hide(f"{label}={value!r}")
    return text if len(text) <= _LONGEST_SHOWN_COUNT else f"{text[:_LONGEST_SHOWN_COUNT]}…"


def _known(values: Mapping[Any, object], where: str, warnings: list[str]) -> _Layer:
    """What is said of the fields that there are; `where` stands before each key in warnings."""
    for key in [key for key in values if key not in _FIELDS]:
        shown = _shown(f"{where}{key}", values[key])
        warnings.append(f"{shown} is ignored: no such setting{_suggestion(str(key))}")
    return {key: (f"{where}{key}", value) for key, value in values.items() if key in _FIELDS}


def _environment(environ: Mapping[str, str], warnings: list[str]) -> _Layer:
    """TRACELAKE_* variables. Other parts of tracelake have theirs, so only a likely slip of the pen is told."""
    names = {f"{ENVIRONMENT_PREFIX}{name.upper()}": name for name in _FIELDS}
    for name in environ:
        if name.startswith(ENVIRONMENT_PREFIX) and name not in names and name not in _OTHER_VARIABLES:
            suggestion = _suggestion(name[len(ENVIRONMENT_PREFIX) :].lower(), "TRACELAKE_{}")
            if suggestion:
                warnings.append(f"{_shown(name, environ[name])} is ignored: no such setting{suggestion}")
    return {names[name]: (name, value) for name, value in environ.items() if name in names and value.strip()}


def _suggestion(key: str, form: str = "{}") -> str:
    from difflib import get_close_matches

    near = get_close_matches(key[:_LONGEST_SHOWN_COUNT].lower(), _FIELDS, n=1, cutoff=0.75)
    return f"; did you mean {form.format(near[0].upper() if form != '{}' else near[0])}?" if near else ""


def _file(file: Path | None, environ: Mapping[str, str], warnings: list[str]) -> _Layer:
    """The [recorder] table of a TOML file, or a JSON object (whole, or its "recorder")."""
    path = file or Path(environ.get(FILE_VARIABLE, "") or os.devnull)
    if str(path) == os.devnull:
        return {}
    try:
        content = _parsed(path)
    except (OSError, ValueError, RecursionError) as error:
        warnings.append(f"the settings file {path} is ignored: {error}")
        return {}
    found = content.get("recorder", content if path.suffix == ".json" else None) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        warnings.append(f"the settings file {path} is ignored: it has no [recorder] table")
        return {}
    return _known(found, f"{path.name}: ", warnings)


def _parsed(path: Path) -> object:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    try:
        import tomllib
    except ImportError:
        raise ValueError("TOML needs Python 3.11; write the same as JSON into a .json file") from None
    return tomllib.loads(text)


def from_sagemaker(profiler: Mapping[str, str]) -> dict[str, object]:
    """What `config.profiler` of SageMaker's profiler says, as `given` for `load`, which warns of unknown keys."""
    given: dict[str, object] = {}
    for key, value in profiler.items():
        name = _SAGEMAKER.get(str(key).replace("_", "").lower(), f"profiler.{key}")
        given[name] = _OPPOSITE.get(str(value).strip().lower(), value) if name == "enabled" else value
    return given


def environment_table() -> str:
    """The variables as a Markdown table, for docs/."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, item in _FIELDS.items():
        default = item.default if item.default_factory is MISSING else "" if name == "spool" else None
        shown = "" if default is None else int(default) if isinstance(default, bool) else default
        lines.append(f"| {ENVIRONMENT_PREFIX}{name.upper()} | {shown} | {item.metadata['meaning']} |")
    lines.append(f"| {FILE_VARIABLE} | | Settings file: TOML (Python 3.11 on) with a [recorder] table, or JSON |")
    return "\n".join(lines) + "\n"
