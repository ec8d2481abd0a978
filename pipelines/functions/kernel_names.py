"""The readable part of a kernel name: its head, for the rules, and its short name, for tables and pages.

A head is the function name without return type, template arguments and parameters. It is made by one list of
substitutions that Python and Spark run alike, so patterns here keep to what `re.ASCII` and Java read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

Substitution = tuple[str, str]

MAX_SHORT_NAME = 79
# Deepest nesting that is taken off; the real names go to 15. Deeper ones are cut at their first bracket.
_DEPTH = 16

# Entry points that only carry the real kernel as their first template argument: its name is the name that tells.
_UNWRAP: tuple[Substitution, ...] = (
    (r"^(?:void )?cutlass[a-z0-9_]*::(?:Kernel2?|device_kernel)<", ""),
    (r"^[a-z0-9_:]*enable_[a-z0-9_]*sm[0-9][a-z0-9_]*<", ""),
    (r"^(?:void )?ck_tile::kentry<(?:\(int\))?[0-9]+, ", ""),
    (r"^(?:void )?rocprim::[A-Za-z0-9_:]*trampoline_kernel<(?:rocprim::[A-Za-z0-9_:]*default_config, )?", ""),
    (r"^_ZN[0-9]+cutlass[a-z0-9_]*(?:6Kernel|7Kernel2|13device_kernel)I", "_Z"),
    (r"^_ZN7ck_tile6kentryILi[0-9]+E", "_Z"),
)

_STRIP: tuple[Substitution, ...] = (
    (r"\s+", " "),
    # Before the angles, which would take the bracket of `operator<` for one of theirs.
    (r"(?<![A-Za-z0-9_])operator ?[<>=-]+", "operator"),
    *((r"\([^()]*\)", ""),) * _DEPTH,
    *((r"<[^<>]*>", ""),) * _DEPTH,
    # What is still open belongs to a name that was cut short, or to the wrapper that was taken off above.
    (r"[<>(),\[\]][\s\S]*", ""),
    # Unnamed and versioned namespaces: they differ from build to build.
    (r"(?<![A-Za-z0-9_])(?:_GLOBAL__N_[A-Za-z0-9_]*|[A-Z]+_[0-9A-Z_]*_NS)::", ""),
    (r" const(?![A-Za-z0-9_])", ""),
    (r"\s+", " "),
    (r"(?:::){2,}", "::"),
    (
        r"^(?:(?:void|bool|char|short|int|long|unsigned|signed|float|double|auto|[A-Za-z0-9_:]*::type)[ *&]|[ :*&])+",
        "",
    ),
    (r"(?:\.kd|[ :*&])+(?![\s\S])", ""),
)

# Itanium mangling writes each identifier behind its length, so its names can only be told apart by counting.
_IDENTIFIER = "|".join(rf"{length}(?!_Z)[A-Za-z_][A-Za-z0-9_]{{{length - 1}}}" for length in range(1, 100))
_MANGLED = rf"^_ZN?(?:S[0-9A-Z]*_)?(?:{_IDENTIFIER})+"
_UNNAMED = r"(?<![A-Za-z0-9_])_GLOBAL__N_[A-Za-z0-9_]*::"

# PyTorch launches hundreds of different operations through a few kernels: only an argument tells them apart.
_GENERIC = r"^(?:at::native::)?_?(?:[a-z]+_)*(?:elementwise|reduce|multi_tensor_apply)[a-z_]*kernel"
_LAUNCHERS = (
    r"[a-z_]*(?:elementwise|reduce|multi_tensor_apply)[a-z_]*kernel[a-z0-9_]*|gpu_[a-z_]*kernel[a-z_]*"
    r"|AUnaryFunctor|BUnaryFunctor|BinaryFunctor|ReduceOp|func_wrapper_t|operator|lambda|OpaqueType|apply"
    r"|[A-Za-z]*Metadata|[A-Za-z]*Op[A-Za-z]*Functor|_cuda_scatter_gather_internal_kernel"
    r"|type_specialized_broadcast_kernel_launcher"
)
_FUNCTOR = rf"(?<![A-Za-z0-9_])(?!(?:{_LAUNCHERS})[<(])[A-Za-z_][A-Za-z0-9_]*(?=[<(])"
_FUNCTOR_TAIL = r"(?:_kernel_cuda|_cuda_kernel|_kernel_impl|_kernel|CUDAKernelImpl|_cuda_out)(?![A-Za-z0-9_])"

_SHORTEN: tuple[Substitution, ...] = (
    (r"^at::native::", ""),
    # Tensile names spell out every tuning parameter; type, tile and matrix instruction come before them.
    (r"_SN_1?LDSB[\s\S]*", ""),
)
_ELLIPSIS: Substitution = (rf"(?<=^[\s\S]{{{MAX_SHORT_NAME - 1}}})[\s\S]{{2,}}", "…")


def head(name: str) -> str:
    """The function name outside its template arguments; the whole name where nothing else is left."""
    stripped = _substitute(name, *_UNWRAP, *_STRIP)
    if mangled := re.search(_MANGLED, stripped, re.ASCII):
        identifiers = re.findall(_IDENTIFIER, mangled[0], re.ASCII)
        joined = "::".join(re.sub("^[0-9]+", "", identifier) for identifier in identifiers)
        return _substitute(joined, (_UNNAMED, ""))
    return stripped or name


def head_column(name: Column) -> Column:
    """`head` as a Spark expression."""
    return let(_substitute_column(name, *_UNWRAP, *_STRIP), lambda stripped: _demangled(stripped, name))


def short_name(name: str) -> str:
    """The head, and what a generic PyTorch kernel computes, in under 80 characters."""
    whole = head(name)
    found = re.search(_FUNCTOR, name, re.ASCII) if re.search(_GENERIC, whole, re.ASCII) else None
    functor = _substitute(found[0], (_FUNCTOR_TAIL, "")) if found else ""
    joined = " · ".join(part for part in (_substitute(whole, *_SHORTEN), functor) if part)
    return _substitute(joined, _ELLIPSIS)


def short_name_column(name: Column) -> Column:
    """`short_name` as a Spark expression."""
    return let(head_column(name), lambda whole: shortened(whole, name))


def shortened(whole: Column, name: Column) -> Column:
    """The short name of `name`, whose head is already at hand in `whole`."""
    functor = _substitute_column(F.regexp_extract(name, _FUNCTOR, 0), (_FUNCTOR_TAIL, ""))
    telling = F.when(whole.rlike(_GENERIC), present(functor))
    return _substitute_column(
        F.concat_ws(" · ", present(_substitute_column(whole, *_SHORTEN)), telling),
        _ELLIPSIS,
    )


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of `value`, with `value` written, and computed, once."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def present(text: Column) -> Column:
    """NULL in place of an empty text."""
    return F.nullif(text, F.lit(""))


def _demangled(stripped: Column, name: Column) -> Column:
    identifiers = F.regexp_extract_all(F.regexp_extract(stripped, _MANGLED, 0), F.lit(_IDENTIFIER), F.lit(0))
    joined = F.array_join(F.transform(identifiers, lambda each: F.regexp_replace(each, "^[0-9]+", "")), "::")
    return (
        F.when(stripped.rlike(_MANGLED), F.regexp_replace(joined, _UNNAMED, ""))
        .when(stripped == "", name)
        .otherwise(stripped)
    )


def _substitute(text: str, *substitutions: Substitution) -> str:
    for pattern, replacement in substitutions:
        text = re.sub(pattern, replacement, text, flags=re.ASCII)
    return text


def _substitute_column(text: Column, *substitutions: Substitution) -> Column:
    for pattern, replacement in substitutions:
        text = F.regexp_replace(text, pattern, replacement)
    return text
