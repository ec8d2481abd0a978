"""Kernels as training steps launch them, under the full names that profilers write."""

from __future__ import annotations

from typing import NamedTuple

_NATIVE = "void at::native::"
_ANONYMOUS = f"{_NATIVE}(anonymous namespace)::"


class Shape(NamedTuple):
    """One kernel of a layer: its name, usual duration and launch configuration."""

    name: str
    mean_ns: int
    grid_count: int
    block_count: int
    occupancy_ratio: float

    @property
    def api_name(self) -> str:
        """The call that starts it: cluster launches and NCCL take the extensible one."""
        extensible = self.name.startswith(("nvjet", "sm90", "nccl"))
        return "cudaLaunchKernelExC" if extensible else "cudaLaunchKernel"


def _pair(function: str, parameters: str, arguments: str) -> str:
    return f"{function}<{parameters}>({arguments})"


def _elementwise(functor: str, arrays: int) -> str:
    array = f"std::array<char*, {arrays}ul>"
    return _pair(f"{_NATIVE}vectorized_elementwise_kernel", f"4, {functor}, {array} ", f"int, {functor}, {array}")


_SILU_BF16 = (
    "at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::"
    "{lambda()#6}::operator()() const::{lambda(c10::BFloat16)#1}"
)
_GELU_BF16 = (
    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::"
    "{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}"
)
_MUL = "at::native::binary_internal::MulFunctor<float> "
_SUM_FLOAT = (
    "at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::"
    "operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4>"
)
_FLASH = "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits"
_LISTS = "at::native::(anonymous namespace)::TensorListMetadata<1>"
_SCALE = "at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>"
_ADAM_LISTS = "at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>"
_ADAM = "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>"
_ADAM_TYPES = "float const*, double, double, double, double, double, bool, bool, float*, float*"
_CUTLASS = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2"
_SM90 = "execute_segment_k_off_kernel__5x_cublas"
_NCCL = "(ncclDevKernelArgsStorage<4096ul>)"
_BN_FORWARD = (
    "cudnnTensorStruct, float const*, cudnnTensorStruct, float*, float const*, float const*, float, float, "
    "float*, float*, float*, float*, float, float"
)

ADD_BF16 = _elementwise("at::native::CUDAFunctor_add<c10::BFloat16>", 3)
ADD_FP32 = _elementwise("at::native::CUDAFunctor_add<float>", 3)
MUL_FP32 = _elementwise(f"at::native::BUnaryFunctor<float, float, float, {_MUL}>", 2)
SILU = _elementwise(_SILU_BF16, 2)
GELU = _elementwise(_GELU_BF16, 2)
FILL = _elementwise("at::native::FillFunctor<c10::BFloat16>", 1)
LAYER_NORM = _pair(
    f"{_ANONYMOUS}vectorized_layer_norm_kernel",
    "float, float, false",
    "int, float, float const*, float const*, float const*, float*, float*, float*",
)
LAYER_NORM_GRAD = _pair(
    f"{_ANONYMOUS}layer_norm_grad_input_kernel",
    "float, float, true",
    "float const*, float const*, float const*, float const*, float const*, float*, int",
)
SOFTMAX = _pair(
    f"{_ANONYMOUS}cunn_SoftMaxForward",
    "8, c10::BFloat16, float, c10::BFloat16, at::native::(anonymous namespace)::SoftMaxForwardEpilogue",
    "c10::BFloat16*, c10::BFloat16 const*, int",
)
SOFTMAX_GRAD = _pair(
    "void (anonymous namespace)::softmax_warp_backward",
    "float, float, float, 10, true, false",
    "float*, float const*, float const*, int, int, int, bool const*",
)
REDUCE_FP32 = _pair(f"{_NATIVE}reduce_kernel", f"512, 1, {_SUM_FLOAT} ", _SUM_FLOAT)
FLASH_FORWARD = _pair(
    "void pytorch_flash::flash_fwd_kernel",
    f"pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, {_FLASH}<64, 128, 128, 4, "
    "cutlass::bfloat16_t> >, false, false, false, false, false, true, false",
    "pytorch_flash::Flash_fwd_params",
)
FLASH_BACKWARD = _pair(
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
    f"pytorch_flash::Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, {_FLASH}<64, 128, 128, 8, "
    "cutlass::bfloat16_t> >, false, true, false, false, true, true, false",
    "pytorch_flash::Flash_bwd_params",
)
CLIP = _pair(
    f"{_ANONYMOUS}multi_tensor_apply_kernel",
    f"{_LISTS}, {_SCALE}, std::multiplies<float>, float",
    f"{_LISTS}, {_SCALE}, std::multiplies<float>, float",
)
ADAM = _pair(
    f"{_ANONYMOUS}multi_tensor_apply_kernel",
    f"{_ADAM_LISTS}, {_ADAM}, {_ADAM_TYPES}",
    f"{_ADAM_LISTS}, {_ADAM}, {_ADAM_TYPES}",
)
NVJET = "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN"
NVJET_FP8 = "nvjet_qqtst_128x256_128x6_2x1_v_bz_TNT"
GEMM_H100 = f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_{_SM90}"
GEMM_FP8 = f"sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x128_warpgroupsize1x1x1_{_SM90}"
GEMM_A100 = f"void cutlass::Kernel2<{_CUTLASS}>({_CUTLASS}::Params)"
QUANTIZE_FP8 = _pair(
    "void vllm::scaled_fp8_quant_kernel_strided",
    "c10::BFloat16, c10::Float8_e4m3fn",
    "c10::Float8_e4m3fn*, c10::BFloat16 const*, float const*, int, long, long",
)
SGEMM = "ampere_sgemm_128x64_nn"
SGEMM_GRAD = "ampere_sgemm_32x32_sliced1x4_nt"
CONV = "cudnn_infer_volta_scudnn_128x64_relu_xregs_large_nn_v1"
CONV_GRAD = "cudnn_train_volta_scudnn_128x128_stridedB_splitK_interior_nn_v1"
BATCH_NORM = _pair("void cudnn::bn_fw_tr_1C11_kernel_NCHW", "float, float, int, 512, true, 1, true", _BN_FORWARD)
BATCH_NORM_GRAD = _pair(
    "void cudnn::bn_bw_1C11_singleread", "float, 512, true, 1, 2, 0", "cudnn::bn_bw_1C11_args<float>"
)
TRITON_GELU = "triton_poi_fused_addmm_gelu_view_17"
TRITON_NORM = "triton_red_fused_add_mean_mul_pow_rsqrt_0"
TRITON_ADD = "triton_poi_fused__unsafe_view_add_3"
ALL_REDUCE_BF16 = f"ncclDevKernel_AllReduce_Sum_bf16_RING_LL{_NCCL}"
ALL_REDUCE_FP32 = f"ncclDevKernel_AllReduce_Sum_f32_RING_LL{_NCCL}"
SEND_RECV = f"ncclDevKernel_SendRecv{_NCCL}"
ALL_GATHER = f"ncclDevKernel_AllGather_RING_LL{_NCCL}"
REDUCE_SCATTER_BF16 = f"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL{_NCCL}"
