"""A small transformer language model on made-up text, alone or with DistributedDataParallel:

python pytorch_transformer.py --steps 20
tracelake-record --output ./lake -- torchrun --nproc-per-node 2 pytorch_transformer.py
"""

from __future__ import annotations

import argparse
import os
import random

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tracelake import Config, Profiler, annotate

WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORDS = ["the", "a", "small", "large", "kernel", "step", "rank", "model", "reads", "writes", "waits", "for", "data"]


class LanguageModel(nn.Module):
    """Predicts each next character from those before it."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(128, width), nn.Parameter(torch.zeros(length, width))
        block = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True)
        self.blocks, self.head = nn.TransformerEncoder(block, num_layers=2), nn.Linear(width, 128)
        self.register_buffer("ahead", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.blocks(self.characters(text) + self.places, mask=self.ahead))


def texts(count: int, length: int, seed: int) -> TensorDataset:
    """Pieces of one long text, each with one character more than the model reads."""
    words = random.Random(seed).choices(WORDS, k=count * (length + 1))
    text = torch.frombuffer(bytearray(" ".join(words).encode("ascii")), dtype=torch.uint8).long()
    return TensorDataset(text[: count * (length + 1)].view(count, length + 1))


def train(options: argparse.Namespace, device: torch.device) -> float:
    model: nn.Module = LanguageModel(options.length, options.width).to(device)
    if WORLD_SIZE > 1:
        model = DistributedDataParallel(model, device_ids=[LOCAL_RANK] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    data = texts(options.steps * options.batch_size * WORLD_SIZE, options.length, options.seed)
    sampler = DistributedSampler(data, seed=options.seed) if WORLD_SIZE > 1 else None
    batches = iter(DataLoader(data, options.batch_size, sampler=sampler))
    loss = torch.zeros(())
    for step in range(options.steps):
        with annotate(f"step_{step}"):
            with annotate("data_loading"):
                (text,) = next(batches)
                text = text.to(device)
            with annotate("forward"):
                loss = nn.functional.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
            with annotate("backward"):
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
            with annotate("optimizer"):
                optimizer.step()
    return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("steps", 20), ("batch-size", 8), ("length", 32), ("width", 32), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    profiler, config = Profiler.instance(), Config()
    config.profiler = {"EnableCuda": "1", "EnableCpu": "1"}
    profiler.configure(config)
    profiler.start_profiling()  # before the first use of CUDA, so that nothing is missed
    profiler.tag(model="transformer", width=options.width)
    device = torch.device("cuda", LOCAL_RANK) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if WORLD_SIZE > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    loss = train(options, device)
    profiler.stop_profiling()
    print(f"loss after {options.steps} steps: {loss:.4f}")
    if WORLD_SIZE > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
