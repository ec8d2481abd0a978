"""A small CNN in Keras on TensorFlow. It knows nothing of tracelake, which finds its steps by itself:

tracelake-record --output ./lake -- python keras_cnn.py --steps 40
"""

from __future__ import annotations

import argparse

import keras
import numpy as np

CLASSES = 8


def stripes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with one bright stripe, whose place is the class."""
    images = np.random.default_rng(seed).random((count, 32, 32, 3), dtype=np.float32)
    labels = np.arange(count) % CLASSES
    for image, label in zip(images, labels, strict=True):
        image[4 * label : 4 * label + 4] += 0.5
    return images, labels


def cnn() -> keras.Model:
    return keras.Sequential([
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(CLASSES, activation="softmax"),
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    keras.utils.set_random_seed(options.seed)
    images, labels = stripes(options.steps * options.batch_size, options.seed)
    model = cnn()
    model.compile(keras.optimizers.AdamW(options.learning_rate), loss="sparse_categorical_crossentropy")
    history = model.fit(images, labels, options.batch_size, shuffle=False, verbose=0)
    print(f"mean loss over {options.steps} steps: {history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
