"""The rules on real kernel names: from the recorded traces, from public reports, and labelled by hand."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tracelake.pipelines.functions.kernel_names import short_name
from tracelake.pipelines.normalized.kernel_rules import RULES, RULES_VERSION, TYPES, classify, precision_of, rule_of
from tracelake.schemas.normalized.kernels import CLASSES, PRECISIONS

# A real name for every rule, cut where it goes on for long, as tools cut it too.
EXAMPLES = {
    "attention.inductor": "triton_tem_fused_flex_attention_backward",
    "conv.inductor": "triton_tem_fused__to_copy_convolution_repeat_unsqueeze_view_2",
    "gemm.inductor": "triton_tem_fused__to_copy_addmm_gelu_t_view_9",
    "fused.inductor": "triton_poi_fused_0",
    "gemm.xla": "gemm_fusion_dot_general_1.kd",
    "fused.xla": "loop_convert_fusion.kd",
    "fused.nvfuser": "nvf::nvfuser_reduction_f0_c1_r0_g21(nvf::Tensor<nvf::__bfloat, (int)3, (int)4>, nvf::Tensor<nvf:",
    "communication.nccl.reduction": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "communication.nccl": "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
    "communication.custom": "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*,",
    "communication.peer": "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals,",
    "copy.kv_cache": "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>((anonymous namespace)::StoreKVC",
    "copy.page_indices": "_copy_page_indices_kernel",
    "index.kv_cache": "create_flashinfer_kv_indices_triton",
    "attention.backward_stage": "void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kerne",
    "attention.combine": "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<256, 64, 64, 4, false, ",
    "attention.prepare": "flash::prepare_varlen_num_blocks_kernel(int, int, int, int const*, int const*, int const*, ",
    "attention.paged.stage": "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, __hip_bfloat16, 128, 128, 256, ",
    "attention.paged.vector": "vllm::paged_attention_v1_kernel<uint16_t, uint16_t, 128, 32, 128>",
    "attention.trtllm": "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
    "attention.cudnn": "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
    "attention.cutlass.vector": "fmha_cutlassB_f16_aligned_64x64_k32_sm50",
    "attention.cutlass": "fmha_cutlassF_bf16_aligned_64x128_rf_sm80",
    "attention.flash": "aiter::fmha_fwd_hd128_bf16_rtz",
    "attention.ck": "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_40BlockFmhaBatchPrefillPipe",
    "attention.triton": "attn_fwd",
    "attention.aotriton": "bwd_kernel_fuse",
    "attention.paged": "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCa",
    "gemm.nvjet.bf16": "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN",
    "gemm.nvjet.fp16": "nvjet_hsh_448x128_64x2_1x2_h_bz_bias_NNT",
    "gemm.nvjet.fp8": "nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_Avec32UE8M0_Bvec32UE8M0_TNT",
    "gemm.nvjet.fp4": "nvjet_sm103_oohsh_128x128_256x7_2x2_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT",
    "gemm.nvjet": "nvjet_sm120_biu_mma",
    "gemm.trtllm": "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transO",
    "gemm.cutlass.vector": "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128",
    "gemm.cutlass.tf32": "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(cutlass_80_tensorop",
    "gemm.cutlass": "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>(cutlass_75_tenso",
    "conv.cutlass": "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3_nhwc_alig",
    "conv.cutlass.template": "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblo",
    "gemm.cutlass.template": "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::k",
    "gemm.xmma.vector": "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_align",
    "gemm.xmma": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_k",
    "conv.xmma.vector": "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize64x64x8_stage3_",
    "conv.xmma": "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_wa",
    "conv.cudnn.tensor": "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_medium_nhwc_gelu_tn_v1",
    "conv.cudnn.vector": "cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
    "gemm.cublas.tensor": "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",
    "gemm.cublas.vector": "volta_sgemm_64x64_nn",
    "gemm.cublas.small": "void gemvNSP_kernel<float, float, float, float, 1, 16, 4, 1024, cublasGemvParams<cublasGemvT",
    "gemm.cublas.dot": "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<float const>, cu",
    "gemm.cublas.named": "void sgemm_largek_lds64<true, true, 6, 3, 4, 5, 2, 66>(float*, float const*, float const*, i",
    "gemm.stage": "void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*, cublasLt",
    "gemm.tensile": "Cijk_Ailk_Bjlk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x64x32_MI32x32x1_SN_LDSB0_AFC1_AFEM1_AFEM1_ASEM1",
    "gemm.tensile.vector": "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT1x4x256_SN_LDSB0_AFC0_AFEM1_AFEM1_ASEM1_CLR",
    "gemm.skinny": "void wvSplitK_hf_sml_<__hip_bfloat16, 64, 4, 16, 8, 1, 4>(int)",
    "conv.miopen": "igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt64x64x64_wt16x16x16_ws1x1_wr2x2_ta1x8x2x1_1x8x1x32_tb1x8x2x1_1",
    "conv.ck": "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_34GridwiseGe",
    "conv.winograd": "void cudnn::winograd_nonfused::winogradWgradData4x4<float, float>(cudnn::winograd_nonfused::Wino",
    "conv.fft": "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int, int, int, int, int, int, in",
    "conv.stage": "cask_cudnn_infer::computeBOffsetsKernel(cask_cudnn_infer::ComputeBOffsetsParams)",
    "conv.im2col": "Im2d2Col_v2",
    "conv.direct": "void wgrad_alg0_engine<float, 128, 6, 8, 3, 3, 5, false, 512>(int, int, int, float const*, int, fl",
    "moe.ogs": "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1",
    "moe.gemm": "fused_moe_kernel",
    "moe.routing": "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_",
    "moe.triton": "_sum_bitmatrix_rows",
    "gemm.tensor": "void deep_gemm::sm90_fp8_gemm_1d1d_impl<4096u, 2048u, 0u, 32u, 128u, 152u, 128u, 128u, ",
    "gemm.marlin": "void marlin::Marlin<",
    "gemm.named": "_Z25batch_gemm_kernel1x1_coreI7double2S0_S0_Lb0ELb1",
    "norm.named": "MIOpenBatchNormBwdSpatial",
    "norm.cudnn": "void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_bw_1C11_args<float>)",
    "norm.stage": "void at::native::(anonymous namespace)::cuComputeGradGammaBeta<float, float, true>(float const*, fl",
    "softmax": "void (anonymous namespace)::softmax_warp_forward<float, float, float, 1, false, false>(float*, float c",
    "elementwise.rotary": "void rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat1",
    "embedding.table": "void permute_pooled_embs_kernel<float>(float const*, long const*, long const*, long const*, fl",
    "embedding.backward": "void at::native::(anonymous namespace)::compute_grad_weight<float, long>(long const*, float",
    "embedding.segments": "void at::native::(anonymous namespace)::krn_partials_per_segment<long>(long*, long const*, ",
    "optimizer.foreach": "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float, float, floa",
    "optimizer.named": "adamw_kernel3",
    "elementwise.index": "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(c",
    "index.search": "void at::native::(anonymous namespace)::searchsorted_cuda_kernel<float, long>(long*, float const*",
    "reduce.library": "void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*, long*, cub::ConstantInputIter",
    "elementwise.library": "void rocprim::ROCPRIM_400001_NS::detail::transform_kernel<true, ",
    "sort.library": "void cub::DeviceScanInitKernel<cub::ScanTileState<long, true> >(cub::ScanTileState<long, true>, i",
    "sort.named": "_topk_forward",
    "index.native": "void at::native::index_elementwise_kernel<128, 4, at::native::index_copy_kernel_impl<at::native::",
    "index.named": "compute_position_kernel",
    "index.upsample": "void at::to_dense_representation_kernel<float>(long, long, long const*, float const*, long cons",
    "copy.named": "void recat_copy_async_kernel<float>(long const*, long const*, float const*, float*, long, long, lon",
    "copy.layout": "batched_transpose_4x64_half",
    "reduce.native": "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::MaxOps<float>, un",
    "reduce.pool": "void at::native::(anonymous namespace)::adaptive_average_pool<float>(float const*, float*, int, in",
    "elementwise.native": "void at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<long>, std::array<",
    "elementwise.from_fp8": "_FP8rowwise_to_float",
    "elementwise.dequantize": "kDequantizeBlockwise",
    "elementwise.convert": "sage_quant_kernel",
    "elementwise.activation": "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_",
    "elementwise.named": "void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)",
    "other": "Kernel",
}

# Names that other tools get wrong, and why.
TRAPS = {
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>": "copy",
    "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>": "elementwise",
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>": "elementwise",
    "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*, int const*, int*)": "index",
    "triton_poi_fused__to_copy_add_cat_fmha_v3_fwd_mul_neg_stack_unbind_unsqueeze_view_14": "fused",
    "flashinfer::norm::GemmaRMSNormKernel<8u, __nv_bfloat16>": "norm",
    "void at::native::vectorized_elementwise_kernel<4, at::native::direct_copy_kernel_cuda": "elementwise",
    "_chunk_scan_fwd_kernel": "other",
    "hipMyOwnKernel": "other",
}

# Strings that no tool should write, but that Python and Java could read differently.
ODD = [
    "",
    "()",
    "<>",
    "int*",
    "foo\nbar<\n>(baz)",
    "caf\u00c9_\u017foftMAX",
    "\u212aernel_Q",
    "a<b",
    "x" * 300,
    "_Z3foo",
]

LABELS = Path(__file__).with_name("kernel_labels.tsv")


class Label(NamedTuple):
    name: str
    kernel_class: str
    precision: str
    is_tensor_core: bool


@pytest.fixture(scope="module")
def labels() -> list[Label]:
    with LABELS.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [Label(row["name"], row["class"], row["precision"], row["tensor_core"] == "true") for row in rows]


@pytest.fixture(scope="session")
def real_names(traces: Path) -> list[str]:
    lines = (traces / "kernel_names.tsv").read_text(encoding="utf-8").splitlines()
    return [line.partition("\t")[0] for line in lines]


def test_rules_are_well_formed() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)
    assert {rule.kernel_class for rule in RULES} == set(CLASSES)
    fixed = {rule.precision for rule in RULES if isinstance(rule.precision, str)}
    assert fixed | {meaning for _, meaning in TYPES} <= set(PRECISIONS)
    assert {rule.confidence for rule in RULES} == {"exact", "inferred"}
    assert RULES[-1].id == "other"
    assert RULES_VERSION >= 1


def test_patterns_mean_the_same_in_python_and_java() -> None:
    operands = [p for rule in RULES if not isinstance(rule.precision, str) for p in rule.precision]
    for pattern in [rule.pattern for rule in RULES] + operands + [pattern for pattern, _ in TYPES]:
        bare = re.sub(r"\[(?:\\[^\n]|[^\]\\])*\]", "[]", pattern)
        assert not re.search(r"[.$']|\\[A-Za-z0-9]", bare), pattern


def test_a_precision_is_a_type_that_means_itself() -> None:
    for precision in set(PRECISIONS) - {"unknown"}:
        assert next(meaning for pattern, meaning in TYPES if re.search(pattern, precision)) == precision


def test_every_rule_has_an_example() -> None:
    assert list(EXAMPLES) == [rule.id for rule in RULES]


@pytest.mark.parametrize(("rule_id", "name"), EXAMPLES.items(), ids=EXAMPLES)
def test_each_rule_is_the_first_match_of_its_example(rule_id: str, name: str) -> None:
    assert rule_of(name).id == rule_id


@pytest.mark.parametrize(("name", "kernel_class"), TRAPS.items(), ids=TRAPS.values())
def test_names_that_mislead(name: str, kernel_class: str) -> None:
    rule = rule_of(name)
    assert (rule.kernel_class, rule.is_tensor_core) == (kernel_class, False)


@given(
    st.sampled_from(list(EXAMPLES.values())), st.sampled_from(["foo<{}>", "void foo<4, {} >(int)", "foo<bar<{}>, 1>"])
)
def test_template_arguments_never_decide(name: str, around: str) -> None:
    assert rule_of(around.format(name)).id == "other"


def test_labels_are_varied(labels: list[Label]) -> None:
    assert len({label.name for label in labels}) == len(labels) >= 120
    assert {label.kernel_class for label in labels} == set(CLASSES)
    assert {label.precision for label in labels} == set(PRECISIONS)


def test_rules_agree_with_the_labels(labels: list[Label]) -> None:
    wrong_class = [label.name for label in labels if rule_of(label.name).kernel_class != label.kernel_class]
    assert len(wrong_class) <= 0.02 * len(labels), wrong_class
    wrong_core = [label.name for label in labels if rule_of(label.name).is_tensor_core != label.is_tensor_core]
    assert len(wrong_core) <= 0.02 * len(labels), wrong_core
    claimed = [label for label in labels if precision_of(label.name) != "unknown"]
    wrong_precision = [label.name for label in claimed if precision_of(label.name) != label.precision]
    assert len(wrong_precision) <= 0.05 * len(claimed), wrong_precision
    known = [label for label in labels if label.precision != "unknown"]
    assert len(claimed) >= 0.95 * len(known)


def test_few_real_names_are_other(real_names: list[str]) -> None:
    other = [name for name in real_names if rule_of(name).kernel_class == "other"]
    assert len(other) < 0.08 * len(real_names), other


def test_spark_classifies_as_python_does(spark: SparkSession, labels: list[Label]) -> None:
    assert_same(spark, [*ODD, *TRAPS, *EXAMPLES.values(), *(label.name for label in labels)])


def test_spark_classifies_real_names_as_python_does(spark: SparkSession, real_names: list[str]) -> None:
    assert_same(spark, real_names)


def assert_same(spark: SparkSession, names: list[str]) -> None:
    distinct = sorted(set(names))
    rows = classify(spark.createDataFrame([(name,) for name in distinct], "name string")).collect()
    found = {row.name: (row.short_name, row.kernel_class, row.name_precision, row.is_tensor_core) for row in rows}
    rules = {name: rule_of(name) for name in distinct}
    assert {row.name: row.rule_id for row in rows} == {name: rule.id for name, rule in rules.items()}
    assert found == {
        name: (short_name(name), rule.kernel_class, precision_of(name), rule.is_tensor_core)
        for name, rule in rules.items()
    }
