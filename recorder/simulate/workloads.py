"""What one training step of each kind of model runs on a device."""

from __future__ import annotations

from dataclasses import dataclass

from tracelake.recorder.simulate import names
from tracelake.recorder.simulate.names import Shape

MIB = 2**20


@dataclass(frozen=True)
class Collective:
    """A collective as every rank of the job joins it."""

    shape: Shape
    operation: str
    dtype: str
    message_bytes: int


@dataclass(frozen=True)
class Workload:
    """The kernels of a step: layers forward, the same layers backward with their collective, the optimizer."""

    layers: int
    forward: tuple[Shape, ...]
    backward: tuple[Shape, ...]
    optimizer: tuple[Shape, ...]
    reduction: Collective
    batch_bytes: int
    gather: Collective | None = None
    """Collects sharded parameters at the start of a step."""
    loading_ns: tuple[int, int] = (300_000, 900_000)
    """The usual wait for a batch that the loader has ready."""
    python_factor: float = 1
    """How much more Python runs after launching a kernel than in compiled code."""

    @property
    def kernel_count(self) -> int:
        """Kernels of one step on one device, the reduction of the loss among them."""
        gathers = 1 if self.gather else 0
        return self.layers * (len(self.forward) + len(self.backward) + 1) + len(self.optimizer) + gathers + 1


def _shape(name: str, mean_us: int, grid_count: int, block_count: int = 256, occupancy_ratio: float = 0.5) -> Shape:
    return Shape(name, mean_us * 1_000, grid_count, block_count, occupancy_ratio)


def _collective(name: str, operation: str, dtype: str, mib: int, us: int) -> Collective:
    return Collective(_shape(name, us, 24, 544, 0.17), operation, dtype, mib * MIB)


LOSS = Collective(_shape(names.ALL_REDUCE_FP32, 25, 1, 544, 0.02), "allreduce", "Float", 4)
"""Ends every step: the mean loss over all ranks, for which the fast ones wait."""

SEND = _collective(names.SEND_RECV, "send", "BFloat16", 8, 30)
RECEIVE = _collective(names.SEND_RECV, "recv", "BFloat16", 8, 30)
"""Between two stages of a pipeline: the activations of a micro-batch, or their gradients."""

_OPTIMIZER = (
    _shape(names.REDUCE_FP32, 140, 512, 512, 0.9),
    _shape(names.CLIP, 320, 1_280, 512, 0.75),
    _shape(names.ADAM, 980, 2_560, 512, 0.75),
    _shape(names.FILL, 60, 4_096, 128, 1.0),
)
_BF16_H100 = (
    _shape(names.LAYER_NORM, 150, 8_192, 128, 0.75),
    _shape(names.NVJET, 1_250, 528, 384, 0.19),
    _shape(names.FLASH_FORWARD, 900, 2_048, 128, 0.25),
    _shape(names.GEMM_H100, 820, 264, 384, 0.19),
    _shape(names.ADD_BF16, 120, 16_384, 128, 1.0),
    _shape(names.LAYER_NORM, 150, 8_192, 128, 0.75),
    _shape(names.NVJET, 1_800, 1_056, 384, 0.19),
    _shape(names.SILU, 240, 32_768, 128, 1.0),
    _shape(names.NVJET, 1_600, 528, 384, 0.19),
)
_BF16_H100_GRAD = (
    _shape(names.GEMM_H100, 3_100, 1_056, 384, 0.19),
    _shape(names.NVJET, 3_300, 528, 384, 0.19),
    _shape(names.SILU, 310, 32_768, 128, 1.0),
    _shape(names.LAYER_NORM_GRAD, 280, 8_192, 128, 0.75),
    _shape(names.FLASH_BACKWARD, 2_200, 2_048, 256, 0.25),
    _shape(names.NVJET, 2_450, 528, 384, 0.19),
    _shape(names.REDUCE_FP32, 130, 512, 512, 0.9),
    _shape(names.ADD_BF16, 120, 16_384, 128, 1.0),
)
LLM_BF16 = Workload(
    layers=3,
    forward=_BF16_H100,
    backward=_BF16_H100_GRAD,
    optimizer=_OPTIMIZER,
    reduction=_collective(names.ALL_REDUCE_BF16, "allreduce", "BFloat16", 512, 4_200),
    batch_bytes=16 * MIB,
)
BERT_BF16 = Workload(
    layers=2,
    forward=(
        _shape(names.GEMM_A100, 2_100, 432, 256, 0.25),
        _shape(names.FLASH_FORWARD, 1_500, 1_536, 128, 0.25),
        _shape(names.GEMM_A100, 1_700, 432, 256, 0.25),
        _shape(names.GELU, 420, 24_576, 128, 1.0),
        _shape(names.GEMM_A100, 2_600, 864, 256, 0.25),
        _shape(names.LAYER_NORM, 260, 6_144, 128, 0.75),
    ),
    backward=(
        _shape(names.LAYER_NORM_GRAD, 480, 6_144, 128, 0.75),
        _shape(names.GEMM_A100, 5_200, 864, 256, 0.25),
        _shape(names.GELU, 520, 24_576, 128, 1.0),
        _shape(names.GEMM_A100, 5_000, 864, 256, 0.25),
        _shape(names.FLASH_BACKWARD, 3_600, 1_536, 256, 0.25),
        _shape(names.ADD_BF16, 200, 12_288, 128, 1.0),
    ),
    optimizer=_OPTIMIZER,
    reduction=_collective(names.ALL_REDUCE_BF16, "allreduce", "BFloat16", 160, 3_900),
    batch_bytes=4 * MIB,
)
VISION_COMPILED = Workload(
    layers=3,
    forward=(
        _shape(names.TRITON_NORM, 210, 4_096, 512, 0.8),
        _shape(names.GEMM_A100, 2_300, 568, 256, 0.25),
        _shape(names.TRITON_GELU, 380, 12_288, 256, 1.0),
        _shape(names.GEMM_A100, 2_000, 568, 256, 0.25),
        _shape(names.TRITON_ADD, 160, 6_144, 256, 1.0),
    ),
    backward=(
        _shape(names.GEMM_A100, 4_400, 568, 256, 0.25),
        _shape(names.TRITON_GELU, 450, 12_288, 256, 1.0),
        _shape(names.GEMM_A100, 4_100, 568, 256, 0.25),
        _shape(names.TRITON_NORM, 390, 4_096, 512, 0.8),
    ),
    optimizer=_OPTIMIZER,
    reduction=_collective(names.ALL_REDUCE_BF16, "allreduce", "BFloat16", 96, 5_200),
    batch_bytes=96 * MIB,
)
LLM_FP8 = Workload(
    layers=3,
    forward=(
        _shape(names.LAYER_NORM, 150, 8_192, 128, 0.75),
        _shape(names.QUANTIZE_FP8, 90, 8_192, 256, 1.0),
        _shape(names.NVJET_FP8, 1_100, 528, 384, 0.19),
        _shape(names.FLASH_FORWARD, 900, 2_048, 128, 0.25),
        _shape(names.GEMM_FP8, 950, 264, 384, 0.19),
        _shape(names.SILU, 240, 32_768, 128, 1.0),
        _shape(names.NVJET_FP8, 1_300, 528, 384, 0.19),
    ),
    backward=(
        _shape(names.QUANTIZE_FP8, 110, 8_192, 256, 1.0),
        _shape(names.GEMM_FP8, 2_100, 528, 384, 0.19),
        _shape(names.NVJET_FP8, 2_300, 528, 384, 0.19),
        _shape(names.FLASH_BACKWARD, 2_200, 2_048, 256, 0.25),
        _shape(names.NVJET_FP8, 2_500, 1_056, 384, 0.19),
        _shape(names.LAYER_NORM_GRAD, 280, 8_192, 128, 0.75),
    ),
    optimizer=_OPTIMIZER,
    reduction=_collective(names.REDUCE_SCATTER_BF16, "_reduce_scatter_base", "BFloat16", 384, 3_600),
    gather=_collective(names.ALL_GATHER, "_allgather_base", "BFloat16", 384, 3_000),
    batch_bytes=16 * MIB,
)
PIPELINE_STAGE = Workload(
    layers=1,
    forward=(_shape(names.NVJET, 1_900, 528, 384, 0.19), _shape(names.GEMM_H100, 1_600, 264, 384, 0.19)),
    backward=(_shape(names.NVJET, 3_700, 1_056, 384, 0.19), _shape(names.GEMM_H100, 3_300, 528, 384, 0.19)),
    optimizer=(_shape(names.ADAM, 320, 2_560, 512, 0.75),),
    reduction=_collective(names.ALL_REDUCE_BF16, "allreduce", "BFloat16", 4, 60),
    batch_bytes=2 * MIB,
    loading_ns=(20_000, 50_000),
)
"""What one stage of a pipeline does with one micro-batch; its ranks reduce nothing."""
CONVNET_FP32 = Workload(
    layers=5,
    forward=(
        _shape(names.CONV, 2_900, 1_568, 256, 0.38),
        _shape(names.BATCH_NORM, 420, 512, 512, 0.5),
        _shape(names.ADD_FP32, 310, 24_576, 128, 1.0),
    ),
    backward=(
        _shape(names.BATCH_NORM_GRAD, 640, 512, 512, 0.5),
        _shape(names.CONV_GRAD, 5_700, 1_568, 256, 0.38),
        _shape(names.SGEMM_GRAD, 900, 784, 256, 0.38),
        _shape(names.MUL_FP32, 240, 24_576, 128, 1.0),
    ),
    optimizer=(*_OPTIMIZER[:-1], _shape(names.SGEMM, 700, 392, 128, 0.38)),
    reduction=_collective(names.ALL_REDUCE_FP32, "allreduce", "Float", 20, 2_100),
    batch_bytes=147 * MIB,
)
ENCODER_SOFTMAX = Workload(
    layers=3,
    forward=(
        _shape(names.GEMM_A100, 2_200, 432, 256, 0.25),
        _shape(names.SOFTMAX, 700, 12_288, 1_024, 1.0),
        _shape(names.GEMM_A100, 1_900, 432, 256, 0.25),
        _shape(names.ADD_BF16, 180, 12_288, 128, 1.0),
    ),
    backward=(
        _shape(names.GEMM_A100, 4_300, 864, 256, 0.25),
        _shape(names.SOFTMAX_GRAD, 1_100, 12_288, 128, 0.9),
        _shape(names.GEMM_A100, 4_100, 864, 256, 0.25),
        _shape(names.REDUCE_FP32, 150, 512, 512, 0.9),
    ),
    optimizer=_OPTIMIZER,
    reduction=_collective(names.ALL_REDUCE_BF16, "allreduce", "BFloat16", 128, 3_400),
    batch_bytes=8 * MIB,
)
