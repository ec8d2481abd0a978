"""What devices can compute at most, as published: dense (without sparsity), at the boost clock."""

_HOPPER = {
    "fp64": 67e12, "fp32": 67e12, "tf32": 494.7e12, "bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12,
    "int8": 1978.9e12,
}  # fmt: skip

# Pattern of the product name -> precision -> operations per second, in tensor cores where they take the type. From
# NVIDIA's data sheet of each product; where it gives figures with sparsity, half of them.
PEAK_FLOPS = {
    r"\bV100.*PCIE": {"fp64": 7e12, "fp32": 14e12, "fp16": 112e12},
    r"\bV100.*SXM": {"fp64": 7.8e12, "fp32": 15.7e12, "fp16": 125e12},
    r"\bT4\b": {"fp32": 8.1e12, "fp16": 65e12, "int8": 130e12},
    r"\bA10\b": {"fp32": 31.2e12, "tf32": 62.5e12, "bf16": 125e12, "fp16": 125e12, "int8": 250e12},
    r"\bA100\b": {"fp64": 19.5e12, "fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "fp16": 312e12, "int8": 624e12},
    r"\bL4\b": {
        "fp32": 30.3e12, "tf32": 60e12, "bf16": 121e12, "fp16": 121e12, "fp8": 242.5e12, "int8": 242.5e12,
    },
    r"\bL40S\b": {
        "fp32": 91.6e12, "tf32": 183e12, "bf16": 362e12, "fp16": 362e12, "fp8": 733e12, "int8": 733e12,
    },
    r"\bH100.*PCIE": {
        "fp64": 51e12, "fp32": 51e12, "tf32": 378e12, "bf16": 756e12, "fp16": 756e12, "fp8": 1513e12, "int8": 1513e12,
    },
    r"\bH100.*(HBM3|SXM)": _HOPPER,
    r"\bH200\b(?!.*NVL)": _HOPPER,
    r"\bB200\b": {
        "fp64": 37e12, "fp32": 75e12, "tf32": 1100e12, "bf16": 2250e12, "fp16": 2250e12, "fp8": 4500e12,
        "int8": 4500e12, "fp4": 9000e12,
    },
}  # fmt: skip
