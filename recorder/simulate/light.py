"""Light models for sets of many jobs: 15 to 35 kernels a step, communication and copies mostly hidden."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracelake.recorder.simulate import names, workloads
from tracelake.recorder.simulate.fleet import A100, H100, L40S, Hardware
from tracelake.recorder.simulate.names import Shape
from tracelake.recorder.simulate.workloads import MIB, Collective, Workload


@dataclass(frozen=True)
class Model:
    """A workload on its machine type, and which causes are true of it without any fault."""

    name: str
    workload: Workload
    hardware: Hardware
    also_true: tuple[str, ...] = ()


def _light(workload: Workload, layers: int, transfer_us: int) -> Workload:
    """Fewer layers; their collectives so short that the next layer hides all but the last, and a small batch."""

    def short(collective: Collective) -> Collective:
        shape, bytes_ns = collective.shape, collective.message_bytes / collective.shape.mean_ns
        size = round(transfer_us * 1_000 * bytes_ns)
        return replace(collective, shape=shape._replace(mean_ns=transfer_us * 1_000), message_bytes=size)

    return replace(
        workload,
        layers=layers,
        reduction=short(workload.reduction),
        gather=short(workload.gather) if workload.gather else None,
        batch_bytes=min(workload.batch_bytes, 8 * MIB),
    )


def _brief(name: str, mean_us: int) -> Shape:
    return Shape(name, mean_us * 1_000, 512, 256, 0.5)


_BRIEF_REDUCTION = Collective(Shape(names.ALL_REDUCE_BF16, 60_000, 24, 544, 0.17), "allreduce", "BFloat16", 2 * MIB)
_BRIEF = Workload(
    layers=2,
    forward=(
        _brief(names.LAYER_NORM, 110),
        _brief(names.GEMM_A100, 240),
        _brief(names.GELU, 130),
        _brief(names.GEMM_A100, 220),
    ),
    backward=(
        _brief(names.LAYER_NORM_GRAD, 150),
        _brief(names.GEMM_A100, 420),
        _brief(names.GELU, 140),
        _brief(names.GEMM_A100, 400),
        _brief(names.ADD_BF16, 120),
    ),
    optimizer=(_brief(names.CLIP, 160), _brief(names.ADAM, 300)),
    reduction=_BRIEF_REDUCTION,
    batch_bytes=256 * 1_024,
    loading_ns=(20_000, 50_000),
)
"""Kernels short enough that reading a value after each, or splitting them, starves the device."""
_EAGER = replace(
    _BRIEF,
    forward=(_brief(names.ADD_BF16, 12), _brief(names.GELU, 18), _brief(names.LAYER_NORM, 15)) * 2,
    backward=(_brief(names.ADD_BF16, 14), _brief(names.GELU, 20), _brief(names.LAYER_NORM_GRAD, 16)) * 2,
    optimizer=(_brief(names.CLIP, 20), _brief(names.ADAM, 25)),
    loading_ns=(80_000, 160_000),
    python_factor=20,
)
"""The host is the bottleneck: each device waits for its rank's Python."""
BRIEF = Model("brief", _BRIEF, A100, ("python_or_other",))
EAGER = Model("eager", _EAGER, L40S, ("launch_bound", "host_work", "python_or_other"))
GPU_BOUND = (
    Model("bert", _light(workloads.BERT_BF16, 2, 900), A100),
    Model("llm", _light(workloads.LLM_BF16, 2, 700), H100),
    Model("vision", _light(workloads.VISION_COMPILED, 3, 600), L40S),
    Model("encoder", _light(workloads.ENCODER_SOFTMAX, 3, 700), A100),
    Model("fp8", _light(workloads.LLM_FP8, 2, 500), H100),
    Model("convnet", _light(workloads.CONVNET_FP32, 3, 700), L40S, ("precision",)),
)
"""What runs is limited by its devices."""
