"""A small CNN on made-up images. The script records itself, so that plain Python is enough:

python pytorch_cnn.py --steps 40
TRACELAKE_OUTPUT=s3://bucket/lake python pytorch_cnn.py
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import tracelake

CLASSES = 8


class Stripes(Dataset[tuple[Tensor, int]]):
    """Noise with one bright stripe, whose place is the class. Image i is always the same."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        label = index % CLASSES
        image = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(index))
        image[:, 4 * label : 4 * label + 4] += 0.5
        return image, label


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 8 * 8, CLASSES),
    )  # fmt: skip


def train(steps: int, batch_size: int, learning_rate: float) -> float:
    """Annotations name what the program does: `step_7` is a training step, the others show what it is made of."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = cnn().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    batches = iter(DataLoader(Stripes(steps * batch_size), batch_size, num_workers=2))
    loss = torch.zeros(())
    for step in range(steps):
        with tracelake.annotate(f"step_{step}"):
            with tracelake.annotate("data_loading"):
                images, labels = next(batches)
                images, labels = images.to(device), labels.to(device)
            with tracelake.annotate("forward"):
                loss = nn.functional.cross_entropy(model(images), labels)
            with tracelake.annotate("backward"):
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
            with tracelake.annotate("optimizer"):
                optimizer.step()
    return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    with tracelake.record(hyperparameters=vars(options), tags={"model": "cnn"}):
        loss = train(options.steps, options.batch_size, options.learning_rate)
    print(f"loss after {options.steps} steps: {loss:.4f}")


if __name__ == "__main__":
    main()
