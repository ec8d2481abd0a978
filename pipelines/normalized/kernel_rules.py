"""What kind of work a kernel does, in which precision, and whether on tensor cores: one ordered list of rules.

The first rule whose pattern is found in the kernel's head wins. Template arguments never decide a class, but the type
of the operands often stands nowhere else, so a precision may be read from the full name. A stage that only one
algorithm launches (split-K reduction, Winograd transform) counts with its algorithm, but without tensor cores.
Patterns keep to what Python's `re.ASCII` and Java read the same way: no `.`, `$`, or back reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tracelake.pipelines.functions.kernel_names import head, head_column, let, present, shortened

# Raise it with every change of a rule: rows that two versions classified are not compared.
RULES_VERSION = 1

EXACT, INFERRED, UNKNOWN = "exact", "inferred", "unknown"
TENSOR, VECTOR = True, False

Operand = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: `<class>.<family>`, and the pattern on the head that it stands for.

    `precision` is a fixed one, or patterns on the full name whose group is an operand's type: the first found counts.
    `confidence` is exact where the name itself states the answers, inferred where they are known from elsewhere.
    """

    id: str
    pattern: str
    precision: str | Operand = UNKNOWN
    is_tensor_core: bool = VECTOR
    confidence: str = EXACT

    @property
    def kernel_class(self) -> str:
        return self.id.partition(".")[0]


# Operand types in template arguments and parameters. A cast such as `(int)4` is closed at once, so it is passed over.
_FLOAT = (
    r"(?:[A-Za-z0-9_]+::)*(?:__)?(?:nv_|hip_)?(?:bfloat16|BFloat16|half|Half|tfloat32|Float8_e[0-9]m[0-9][a-z]*"
    r"|fp8_e[0-9]m[0-9]|float_e[0-9]m[0-9]|float|double)(?:_t)?"
)
_SCALAR = rf"{_FLOAT}|(?:(?:un)?signed )?(?:int|long|char)|short|bool|(?:[A-Za-z0-9_]+::)*OpaqueType"
_MANGLED = r"(DF16b|DF16_|__nv_bfloat16|__hip_bfloat16|10bfloat16_t|10tfloat32_t|6half_t)"
FLOATS: Operand = (rf"[<,(] ?({_FLOAT})(?=[ ,>*&])", _MANGLED)
ELEMENT: Operand = (rf"[<,(] ?({_SCALAR})(?=[ ,>*&<])", _MANGLED)
# A functor's arguments are its operands; `(int)` and `(int, bool)` outside it are the launcher's index.
FUNCTOR: Operand = (
    rf"const::[\[{{]lambda\((?:bool, )*({_SCALAR})[,)]",
    rf"[\[{{]lambda\((?:bool, )*({_FLOAT})[,)]",
    *ELEMENT,
)
CUBLAS: Operand = (r"StridedBatched<(?:const )?([A-Za-z0-9_]+)", *FLOATS)
# Composable Kernel holds bf16 in `unsigned short`, which is `t` where it is mangled.
CK: Operand = (r"(DF16b|DF16_|(?<=[I_])tt+f)", r"[<,] ?(unsigned short)(?=, unsigned short, float)", *FLOATS)

# Operand types that are spelt in the function's name.
_TAG = r"tf32|bf16|fp16|f16|fp32|f32|fp64|f64|fp8|fp4|mxfp4|e4m3|e5m2|int8|i8|s8|u8"
TAG: Operand = (rf"^[A-Za-z0-9_: ]*?(?:[_:]|tensorptr)({_TAG})(?![0-9])",)
TYPED: Operand = (*ELEMENT, *TAG)
NCCL: Operand = (r"_(?:[Ss]um|Prod|MinMax|Min|Max|Avg|PreMulSum|SumPostDiv)_((?:__nv_)?[a-z]+[0-9]*(?:e[0-9]m[0-9])?)",)
FMHA: Operand = (r"Kernel_Q(?:kv)?(E4m3|E5m2|E2m1|Bfloat16|Fp16)", *TAG, *FLOATS)
XMMA: Operand = (rf"_(?:{_TAG})(?:{_TAG}|i32)_({_TAG})",)
CUTLASS: Operand = (rf"({_TAG})gemm_", rf"(?:gemm|fprop|dgrad|wgrad)(?:_[a-z0-9]+)*?_({_TAG})_", r"_(d|i)[0-9]+gemm")
ARCH: Operand = (rf"_({_TAG})_", r"_g?([shdci])[0-9]*(?:gemm|cudnn)")
OGS: Operand = (rf"_matmul_ogs_[A-Z]+_[a-z0-9]+?x({_TAG})x",)
TENSILE: Operand = (r"Cijk_[A-Za-z]+_[A-Za-z]+_(S_MX|F8|B8|I8|4xi8|B|H|S|D|C)",)
# A product of two types runs in the wider one.
BMM: Operand = tuple(rf"^(?:bmm|gemm)_[A-Za-z0-9]+_[A-Za-z0-9]*?({t})" for t in ("Bfloat16|Fp16", "E4m3|E5m2", "E2m1"))

# What these types mean, first match wins. One that is not here (bool, long, an opaque copy) stays unknown.
TYPES: tuple[tuple[str, str], ...] = (
    (r"(?i)tf32|tfloat32|^s_mx", "tf32"),
    (r"(?i)bf16|bfloat16|df16b|^b(?![0-9a-z])|^tt|^unsigned short", "bf16"),
    (r"(?i)fp4|e2m1", "fp4"),
    (r"(?i)e[45]m[23]|fp8|f8|^b8", "fp8"),
    (r"(?i)half|f16|fp16|^h(?![a-z])", "fp16"),
    (r"(?i)double|f64|fp64|^d(?![a-z])", "fp64"),
    (r"(?i)float|f32|fp32|^[sc](?![0-9a-z])", "fp32"),
    (r"(?i)[ius]8|int8|^i(?![0-9a-z])", "int8"),
    (r"(?i)^int(?![0-9a-z])|^u?int32|^[iu]32", "int32"),
)

_ARCH = r"^(?:trt_|cudnn_)?(?:infer_|train_)?(?:maxwell|pascal|volta|turing|ampere|ada|hopper)_(?:[a-z]+[0-9]+_)?"
_NVJET = r"^nvjet_(?:sm[0-9]+_)?"
# Neither FBGEMM, which is a library of embeddings, nor the model Gemma.
_PRODUCT = r"(?<!fb)[Gg]emm(?!a)|mat_?mul|MatMul"
_HAS_TENSOR_TYPE = r"(?:fp8|fp4|bf16|fp16|f16|int8|tf32|a8w8|w4a16|hmma|wgmma|tensorop|deep_gemm)"

RULES: tuple[Rule, ...] = (
    # Compilers first: their names list the operators that they fused, and so all the words of the rules below.
    Rule("attention.inductor", r"^triton_tem_fused_[a-z0-9_]*flex_attention", UNKNOWN, TENSOR, INFERRED),
    Rule("conv.inductor", r"^triton_tem_fused_[a-z0-9_]*convolution", UNKNOWN, TENSOR, INFERRED),
    Rule("gemm.inductor", r"^triton_tem_fused_", UNKNOWN, TENSOR, INFERRED),
    Rule("fused.inductor", r"^triton_(?:poi|red|per|for)_fused_"),
    Rule("gemm.xla", r"^gemm_fusion", UNKNOWN, TENSOR, INFERRED),
    Rule("fused.xla", r"^(?:[a-z_]+_)?fusion(?:_[0-9]+)*(?![0-9A-Za-z_])|^wrapped_[a-z]"),
    Rule("fused.nvfuser", r"(?:^|::)nvfuser_"),
    # Sends, gathers and broadcasts move bytes, whatever type they state; only a reduction computes in its type.
    Rule("communication.nccl.reduction", r"^nccl[A-Za-z]*Kernel_(?:AllReduce|ReduceScatter|Reduce)_", NCCL),
    Rule("communication.nccl", r"(?i)(?:^|[:_ ])(?:nccl|rccl|hccl|msccl)"),
    Rule("communication.custom", r"(?i)(?<![a-z])(?:all_?reduce|reduce_?scatter|all_?gather|all_?to_?all)", FLOATS),
    Rule("communication.peer", r"cross_device_reduce|nvshmem|deep_ep::|userbuffers", FLOATS, VECTOR, INFERRED),
    # Writes to the cache of keys and values are copies, however much attention is in their names.
    Rule("copy.kv_cache", r"reshape_and_cache|concat_and_cache|store_kv_?cache|set_mla_kv_buffer", ELEMENT),
    Rule("copy.page_indices", r"copy_page_indices"),
    Rule("index.kv_cache", r"flashinfer_kv_indices"),
    # Attention: first the stages around the products, then the kernels that hold them.
    Rule("attention.backward_stage", r"flash_bwd_(?:dot_do_o|convert_dq|preprocess)|FlashAttnBwdP", FMHA),
    Rule("attention.combine", r"(?:flash|splitkv|Attn)[A-Za-z_]*[Cc]ombine|^reduce_segments", FMHA, VECTOR, INFERRED),
    Rule("attention.prepare", r"prepare_varlen_num_blocks", UNKNOWN, VECTOR, INFERRED),
    Rule("attention.paged.stage", r"paged_attention_[a-z0-9_]*reduce", FMHA, VECTOR, INFERRED),
    Rule("attention.paged.vector", r"paged_attention_v[12]_kernel", FMHA, VECTOR, INFERRED),
    Rule("attention.trtllm", r"^fmhaSm[0-9]+[a-z]?Kernel_", FMHA, TENSOR),
    Rule("attention.cudnn", r"^cudnn_generated_[a-z_]*sdpa_", UNKNOWN, TENSOR, INFERRED),
    Rule("attention.cutlass.vector", r"^fmha_cutlass[FB]_(?:f32_[A-Za-z0-9_]*_sm[567]|f16_[A-Za-z0-9_]*_sm50)", FMHA),
    Rule("attention.cutlass", r"^fmha_cutlass[FB]_", FMHA, TENSOR, INFERRED),
    Rule("attention.flash", r"flash_(?:fwd|bwd|attn|mla)|Flash_?Att|(?<![A-Za-z])fmha_", FMHA, TENSOR, INFERRED),
    Rule("attention.ck", r"Fmha(?:Fwd|Bwd|Batch)", FMHA, TENSOR, INFERRED),
    Rule("attention.triton", r"(?<![a-z])attn_(?:fwd|bwd)|unified_attention", UNKNOWN, TENSOR, INFERRED),
    Rule("attention.aotriton", r"^bwd_kernel_(?:fuse|dk_dv|dq)", UNKNOWN, TENSOR, INFERRED),
    Rule("attention.paged", r"paged_attention|Batch(?:Prefill|Decode)With", FMHA, TENSOR, INFERRED),
    # cuBLAS, CUTLASS, cuDNN: the names are composed by rule. In nvjet `t` is bf16, `h` fp16, `q` and `r` fp8, `o` fp4.
    Rule("gemm.nvjet.bf16", rf"{_NVJET}ts[a-z]_", "bf16", TENSOR, INFERRED),
    Rule("gemm.nvjet.fp16", rf"{_NVJET}hs[a-z]_", "fp16", TENSOR, INFERRED),
    Rule("gemm.nvjet.fp8", rf"{_NVJET}[qr]{{2}}[a-z]s[a-z]_", "fp8", TENSOR, INFERRED),
    Rule("gemm.nvjet.fp4", rf"{_NVJET}oo[a-z]s[a-z]_", "fp4", TENSOR, INFERRED),
    Rule("gemm.nvjet", r"^nvjet_", UNKNOWN, TENSOR, INFERRED),
    Rule("gemm.trtllm", r"^(?:bmm|gemm)_(?:Mx)?(?:Bfloat16|Fp16|Fp32|E4m3|E2m1)_", BMM, TENSOR),
    Rule("gemm.cutlass.vector", r"^cutlass[a-z0-9_]*_simt_[a-z]gemm", ARCH),
    # Without a type, 1688 multiplies fp32 that is rounded to tf32.
    Rule("gemm.cutlass.tf32", r"^cutlass[a-z0-9_]*_tensorop_s1688gemm_[0-9]+x", "tf32", TENSOR),
    Rule("gemm.cutlass", r"^cutlass[a-z0-9_]*_tensorop_[a-z0-9_]*gemm", CUTLASS, TENSOR),
    Rule("conv.cutlass", r"^cutlass[a-z0-9_]*_tensorop_[a-z0-9_]*(?:fprop|dgrad|wgrad)", CUTLASS, TENSOR),
    Rule("conv.cutlass.template", r"conv::kernel::ImplicitGemm", FLOATS, TENSOR, INFERRED),
    Rule("gemm.cutlass.template", r"cutlass::gemm::|GemmUniversal", FLOATS, TENSOR, INFERRED),
    Rule("gemm.xmma.vector", r"_xmma_gemm_[a-z0-9_]*_ffma_", XMMA),
    Rule("gemm.xmma", r"_xmma_gemm_", XMMA, TENSOR),
    Rule("conv.xmma.vector", r"_xmma_[a-z]+_implicit_gemm_(?:indexed_)?f32f32_f32f32_", XMMA),
    Rule("conv.xmma", r"_xmma_(?:fprop|dgrad|wgrad)_", XMMA, TENSOR),
    Rule("conv.cudnn.tensor", rf"{_ARCH}[shi][0-9]+cudnn_", ARCH, TENSOR),
    Rule("conv.cudnn.vector", rf"{_ARCH}[sh]cudnn_", ARCH),
    Rule("gemm.cublas.tensor", rf"{_ARCH}[shdi][0-9]+gemm_", ARCH, TENSOR),
    Rule("gemm.cublas.vector", rf"{_ARCH}g?[shdcz]gemm_", ARCH),
    Rule("gemm.cublas.small", r"(?:^|::)(?:gemv[A-Za-z0-9]*_kernel|gemvx::kernel|gemmk1_kernel|gemmSN_)", CUBLAS),
    Rule("gemm.cublas.dot", r"^(?:dot_kernel|reduce_1Block_kernel)", CUBLAS, VECTOR, INFERRED),
    Rule("gemm.cublas.named", r"^(?:magma_)?[sdhcz]gemm(?:_|Ex)", CUBLAS),
    Rule("gemm.stage", r"splitKreduce_kernel|^epilogue::impl::globalKernel|_PostGSU", FLOATS, VECTOR, INFERRED),
    # ROCm: MI16x16 is the shape of a matrix instruction; a kernel without one multiplies in vector registers.
    Rule("gemm.tensile", r"^Custom[A-Za-z]*_Cijk_|^Cijk_[A-Za-z0-9_]*_MI[0-9]+x[0-9]+", TENSILE, TENSOR),
    Rule("gemm.tensile.vector", r"^Cijk_", TENSILE),
    Rule("gemm.skinny", r"^wvSplitK", FLOATS, VECTOR, INFERRED),
    Rule("conv.miopen", r"^igemm_(?:fwd|bwd|wrw)_gtcx", (rf"_({_TAG})_",), TENSOR),
    Rule("conv.ck", r"kernel_grouped_conv", CK, TENSOR, INFERRED),
    # Stages of convolutions, and convolutions that multiply in vector registers.
    Rule("conv.winograd", r"(?i)winograd", ELEMENT, VECTOR, INFERRED),
    Rule("conv.fft", r"^fft[12]d_|^flip_filter|^pointwise_mult_and_sum_complex", FLOATS, VECTOR, INFERRED),
    Rule("conv.stage", r"^cask_cudnn|^cutlass_cudnn[a-z_]*::reduction|reduce_wgrad", FLOATS, VECTOR, INFERRED),
    Rule("conv.im2col", r"(?i)im2d?2?col|col2im", ELEMENT, VECTOR, INFERRED),
    Rule("conv.direct", r"(?<![a-z])[dw]grad(?:[0-9]d)?_|plicit_convolve|conv(?:_depthwise)?[123]d", ELEMENT),
    # Mixtures of experts: the grouped products, then routing.
    Rule("moe.ogs", r"^_matmul_ogs_", OGS, TENSOR, INFERRED),
    Rule("moe.gemm", r"fused_moe_kernel|moe_gemm|grouped_gemm|moe_wna16::Marlin", CK, TENSOR, INFERRED),
    Rule("moe.routing", r"(?<![a-z])moe(?:::|_)|Moe[A-Z]|topk[a-zA-Z_]*[Ss]oftmax", TYPED, VECTOR, INFERRED),
    Rule("moe.triton", r"^_(?:combined_routing_|sum_bitmatrix_rows|finalize_matmul_scatter)", TAG, VECTOR, INFERRED),
    # Products by name: on tensor cores where they state a type or an instruction that only they have.
    Rule("gemm.tensor", rf"^(?=[\s\S]*{_HAS_TENSOR_TYPE})[\s\S]*(?:{_PRODUCT})", TAG, TENSOR, INFERRED),
    Rule("gemm.marlin", r"marlin::Marlin", FLOATS, TENSOR, INFERRED),
    Rule("gemm.named", _PRODUCT, FLOATS, VECTOR, INFERRED),
    Rule("norm.named", r"(?i)(?:layer|batch|group|instance|rms|qk|l2)_?norm", TYPED),
    Rule("norm.cudnn", r"^cudnn::bn_", FLOATS),
    Rule("norm.stage", r"GammaBeta|ComputeFusedParams|RowwiseMoments", FLOATS, VECTOR, INFERRED),
    Rule("softmax", r"(?i)softmax|cross_?entropy", ELEMENT),
    # Rotary embedding turns vectors in place: no table is read.
    Rule("elementwise.rotary", r"(?i)rotary|(?<![a-z])rope(?![a-z])", ELEMENT),
    Rule("embedding.table", r"(?i)embedding|(?<![a-z])embs(?![a-z])", ELEMENT),
    Rule("embedding.backward", r"::(?:compute_grad_weight|sum_and_scatter)", FLOATS, VECTOR, INFERRED),
    Rule("embedding.segments", r"::krn_partial|::compute_num_of_partial_segments", UNKNOWN, VECTOR, INFERRED),
    Rule("optimizer.foreach", r"multi_tensor_apply", ELEMENT, VECTOR, INFERRED),
    Rule("optimizer.named", r"(?i)(?<![a-z])(?:fused_?)?(?:adamw?|lamb|sgd|adagrad|lion|muon)(?![a-z])", ELEMENT),
    # What is left moves or rearranges memory; the words that other words hide come first.
    Rule("elementwise.index", r"elementwise_kernel_with_index", FUNCTOR),
    Rule("index.search", r"searchsorted|bucketize", ELEMENT),
    Rule("reduce.library", r"cub::[A-Za-z0-9_:]*DeviceReduce|^rocprim::detail::reduce_", ELEMENT),
    Rule("elementwise.library", r"^rocprim::detail::transform_", ELEMENT),
    Rule("sort.library", r"(?:^|::)cub::|^rocprim::", ELEMENT),
    Rule("sort.named", r"(?i)sort|topk|cumsum|(?<![a-z])(?<!chunk_)(?<!selective_)scan_", ELEMENT),
    Rule("index.native", r"(?i)(?<![a-z])index|gather|scatter", ELEMENT),
    Rule("index.named", r"indices|permute_2D_|offsets_range|compute_(?:position|cuda)_|future_token", ELEMENT),
    Rule("index.upsample", r"upsample_|grid_sampler|to_dense_representation", ELEMENT, VECTOR, INFERRED),
    Rule("copy.named", r"CatArrayBatchedCopy|chunk_cat|_copy_|split_with_sizes|(?:copy|fill)Buffer", ELEMENT),
    Rule("copy.layout", r"transpose|nchwToNhwc|nhwcToNchw", FLOATS),
    Rule("reduce.native", r"reduce_kernel|lpnorm|nll_loss|NLLCriterion", ELEMENT),
    Rule("reduce.pool", r"(?i)(?:max|avg|average)_?pool", ELEMENT),
    Rule("elementwise.native", r"elementwise|dropout|EigenMetaKernel|PhiloxRandom", FUNCTOR),
    Rule("elementwise.from_fp8", r"FP8rowwise_to_", "fp8"),
    # Their type arguments are those of the result.
    Rule("elementwise.dequantize", r"(?i)dequant", UNKNOWN),
    Rule("elementwise.convert", r"(?i)quant|fp8|convert", ELEMENT),
    Rule("elementwise.activation", r"(?i)silu|gelu|swiglu|geglu|act_and_mul", ELEMENT),
    Rule("elementwise.named", r"scal_kernel|scalePackedTensor|clamp|SubTensorOp|bias_rescale|update_scale", ELEMENT),
    Rule("other", ""),
)


def rule_of(name: str) -> Rule:
    """The rule that classifies the kernel `name`."""
    whole = head(name)
    return next(rule for rule in RULES if re.search(rule.pattern, whole, re.ASCII))


def precision_of(name: str) -> str:
    """The input type of the math, as far as the name tells."""
    precision = rule_of(name).precision
    if isinstance(precision, str):
        return precision
    found = (re.search(pattern, name, re.ASCII) for pattern in precision)
    operand = next((match[1] for match in found if match), "")
    return next((meaning for pattern, meaning in TYPES if re.search(pattern, operand, re.ASCII)), UNKNOWN)


def classify(names: DataFrame) -> DataFrame:
    """Distinct kernel names (`name`), each with its short name, class, precision, tensor cores and rule."""
    cases = " ".join(f"WHEN head RLIKE r'{rule.pattern}' THEN '{rule.id}'" for rule in RULES)
    heads = names.withColumn("head", head_column(F.col("name"))).withColumn("rule_id", F.expr(f"CASE {cases} END"))
    return heads.select(
        *names.columns,
        shortened(F.col("head"), F.col("name")).alias("short_name"),
        F.substring_index("rule_id", ".", 1).alias("kernel_class"),
        let(_operand(F.col("name")), _meaning).alias("name_precision"),
        _is_ruled(rule for rule in RULES if rule.is_tensor_core).alias("is_tensor_core"),
        "rule_id",
    )


def _operand(name: Column) -> Column:
    """What the row's rule reads its precision from: a fixed one is an operand's type in its own right."""
    cases = []
    for precision in dict.fromkeys(rule.precision for rule in RULES):
        if isinstance(precision, str):
            operand = F.lit(precision)
        else:
            operand = F.coalesce(*(present(F.regexp_extract(name, pattern, 1)) for pattern in precision))
        cases.append((_is_ruled(rule for rule in RULES if rule.precision == precision), operand))
    return _case(cases)


def _meaning(operand: Column) -> Column:
    return F.coalesce(_case((operand.rlike(pattern), F.lit(meaning)) for pattern, meaning in TYPES), F.lit(UNKNOWN))


def _is_ruled(rules: Iterable[Rule]) -> Column:
    """Whether the row's rule is one of these."""
    return F.col("rule_id").isin([rule.id for rule in rules])


def _case(branches: Iterable[tuple[Column, Column]]) -> Column:
    """The value of the first condition that holds."""
    first, *rest = branches
    chain = F.when(*first)
    for branch in rest:
        chain = chain.when(*branch)
    return chain
