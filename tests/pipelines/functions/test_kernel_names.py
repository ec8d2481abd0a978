"""Heads and short names: of real names, of names cut short, and of anything at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tracelake.pipelines.functions.kernel_names import (
    MAX_SHORT_NAME,
    head,
    head_column,
    short_name,
    short_name_column,
)

HEADS = {
    "volta_sgemm_64x64_nn": "volta_sgemm_64x64_nn",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MaxOps<float> > >(int)": (
        "at::native::reduce_kernel"
    ),
    "void at::native::(anonymous namespace)::softmax<float>(float*)": "at::native::softmax",
    "void at::native::<unnamed>::softmax<(int)4, (bool)0>(T2 *, const T1 *)": "at::native::softmax",
    "at::cuda::(anonymous namespace)::spin_kernel(long)": "at::cuda::spin_kernel",
    # Return types with template arguments and comparisons of their own.
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)": "internal::gemvx::kernel",
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::norm<float, 8>(int)": (
        "vllm::norm"
    ),
    # Operators, lambdas and templates in the middle.
    "bool ns::operator< <int>(int, int)": "ns::operator",
    "ns::Foo<int>::operator()<float>(int) const": "ns::Foo::operator",
    "void ns::Outer<int>::inner<float>(float)": "ns::Outer::inner",
    "ns::f(int)::{lambda(int)#1}::operator()(int) const": "ns::f::{lambda#1}::operator",
    "void clover::par_kernel<build_field(global_variables &)::[lambda(int) (instance 1)]>(T1)": "clover::par_kernel",
    # Cut by a tool in the middle of an argument.
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::AddFunctor(at::Te": (
        "at::native::elementwise_kernel"
    ),
    # Entry points that only carry the kernel.
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(cutlass_80::Params)": (
        "cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4"
    ),
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop<2, float> > > >": (
        "flash::FlashAttnFwdSm90"
    ),
    "void rocprim::ROCPRIM_400400_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400400_NS::default_config, "
    "rocprim::ROCPRIM_400400_NS::detail::reduce_config_selector<bool>, int>(int)": (
        "rocprim::detail::reduce_config_selector"
    ),
    # Mangled names.
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_34Gri": (
        "ck::tensor_operation::device::kernel_grouped_conv_fwd_xdl_cshuffle_v3"
    ),
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256EEEvPT0_": "aiter::add_rmsnorm_quant_kernel",
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE": "Rmsnorm2dFwd",
    "_ZN7cutlass6KernelI42cutlass_80_simt_sgemm_128x32_8x5_nn_align1EEvNT_6ParamsE": (
        "cutlass_80_simt_sgemm_128x32_8x5_nn_align1"
    ),
    "_Z9my_kernelPfi": "my_kernel",
    "fusion_5.kd": "fusion_5",
    # Nothing is left: the name stands for itself.
    "()": "()",
    "": "",
}

SHORT_NAMES = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >": (
        "vectorized_elementwise_kernel · CUDAFunctor_add"
    ),
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<long>, std::array<char *, 1>>": (
        "vectorized_elementwise_kernel · FillFunctor"
    ),
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> > > >": "elementwise_kernel · MulFunctor",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::": (
        "unrolled_elementwise_kernel · direct_copy"
    ),
    "void at::native::vectorized_elementwise_kernel<4, at::native::sqrt_kernel_cuda(at::TensorIteratorBase&)::": (
        "vectorized_elementwise_kernel · sqrt"
    ),
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, "
    "std::multiplies<float>, float>(int)": "multi_tensor_apply_kernel · multiplies",
    "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_MI16x16x16x1_SN_1LDSB0_APM1_AF0EM1": (
        "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_MI16x16x16x1"
    ),
    "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN": "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN",
    "k" * 79: "k" * 79,
    "k" * 80: "k" * 78 + "…",
}

PIECES = [
    *("void ", "bool ", "int", " const", "operator", "operator<", "std::enable_if<", ">::type ", ".kd", "_ZN", "_Z"),
    *("3foo", "12abcdefghijkl", "6Kernel", "7cutlass", "_GLOBAL__N_1::", "CUB_200_NS::", "cutlass::Kernel<", "S_"),
    *("ck_tile::kentry<1, ", "rocprim::trampoline_kernel<", "enable_sm90<", "[lambda(int)", "{lambda()#1}", "]"),
    *("::", "<", ">", "(", ")", ",", " ", "\n", "\t", "*", "&", "a", "B", "1", "I", "_", "é", "\u2028"),
]
NAMES = st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=60)


@pytest.mark.parametrize(("name", "expected"), HEADS.items(), ids=HEADS.values())
def test_head(name: str, expected: str) -> None:
    assert head(name) == expected


@pytest.mark.parametrize(("name", "expected"), SHORT_NAMES.items(), ids=SHORT_NAMES.values())
def test_short_name(name: str, expected: str) -> None:
    assert short_name(name) == expected


@pytest.mark.parametrize("depth", [1, 5, 15, 40])
def test_head_of_nested_templates(depth: int) -> None:
    assert head("void foo<" + "bar<" * depth + "int" + " >" * depth + ">(int)") == "foo"


@given(NAMES)
def test_any_name_has_a_stable_head(name: str) -> None:
    found = head(name)
    assert head(found) == found
    assert bool(found) == bool(name)
    assert len(short_name(name)) <= MAX_SHORT_NAME < 80


def test_spark_reads_names_as_python_does(spark: SparkSession) -> None:
    names = sorted({*HEADS, *SHORT_NAMES, *PIECES, *("".join(PIECES[i:]) for i in range(len(PIECES)))})
    frame = spark.createDataFrame([(name,) for name in names], "name string")
    name = F.col("name")
    rows = frame.select(name, head_column(name).alias("head"), short_name_column(name).alias("short")).collect()
    assert {row.name: row.head for row in rows} == {name: head(name) for name in names}
    assert {row.name: row.short for row in rows} == {name: short_name(name) for name in names}
