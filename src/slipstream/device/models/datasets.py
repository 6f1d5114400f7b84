"""Dataset types: shape, number type, classes and normalisation of a model's inputs, and sources of samples.

Samples are read from a local folder if one is given: either `inputs.npy` (and `labels.npy`), or one folder of pictures
per class. Otherwise they are random, from a seed, without labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstream.errors import ModelError
from slipstream.files.arrays import read_array
from slipstream.files.inputs import open_regular

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm")
MOST_SAMPLES = 64
"""Most samples of one task in memory; jobs use them in turn."""
LONGEST_SIDE = 4096
MOST_PIXELS = LONGEST_SIDE**2
"""Of a picture in a folder, before it is resized."""


@dataclass(frozen=True)
class DatasetType:
    """Input and output of the models of a dataset."""

    name: str
    shape: tuple[int, ...]
    """Shape of one sample: channels, height, width; or the length of a text."""
    classes: int
    vocabulary: int = 0
    """Number of tokens of a text; 0 for pictures."""
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    """Normalisation of each channel, as in training: (value / 255 - mean) / deviation."""

    @property
    def is_text(self) -> bool:
        """Whether a sample is a row of tokens."""
        return self.vocabulary > 0

    @property
    def dtype(self) -> str:
        """The number type of a sample."""
        return "int64" if self.is_text else "float32"


@dataclass(frozen=True)
class Samples:
    """Inputs of one dataset, ready for a model."""

    inputs: np.ndarray  # (samples, *shape)
    labels: np.ndarray | None  # (samples) classes; None if unknown


_TYPES = {
    "cifar10": DatasetType("cifar10", (3, 32, 32), 10, 0, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "gtsrb": DatasetType("gtsrb", (3, 48, 48), 43, 0, (0.3403, 0.3121, 0.3214), (0.2724, 0.2608, 0.2669)),
    "imagenet": DatasetType("imagenet", (3, 224, 224), 1000, 0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "text-128": DatasetType("text-128", (128,), 2, vocabulary=8192),
}
SYNTHETIC_CLASSES = 10


def dataset_type(name: str) -> DatasetType:
    """Return the dataset type of a name such as 'cifar10' or 'synthetic:3x64x64'."""
    if name in _TYPES:
        return _TYPES[name]
    size = re.fullmatch(r"synthetic:(\d{1,4})x(\d{1,4})x(\d{1,4})", name)
    if size is None:
        raise ModelError(f"unknown dataset '{name}': expected one of {', '.join(_TYPES)}, or synthetic:3x64x64")
    shape = tuple(int(side) for side in size.groups())
    if not all(1 <= side <= LONGEST_SIDE for side in shape):
        raise ModelError(f"dataset '{name}': expected sides from 1 to {LONGEST_SIDE}")
    return DatasetType(name, shape, SYNTHETIC_CLASSES, 0, (0.5,) * shape[0], (0.25,) * shape[0])


def samples_of(kind: DatasetType, folder: Path | None, seed: int, count: int = MOST_SAMPLES) -> Samples:
    """Return up to `count` samples from `folder`, or random ones of `seed` without a folder."""
    if folder is not None:
        return _from_folder(kind, folder, count)
    rng = np.random.default_rng(seed)
    if kind.is_text:
        return Samples(rng.integers(0, kind.vocabulary, (count, *kind.shape), np.int64), None)
    return Samples(rng.standard_normal((count, *kind.shape), np.float32), None)


def _from_folder(kind: DatasetType, folder: Path, count: int) -> Samples:
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder: expected samples of {kind.name}")
    if (folder / "inputs.npy").is_file():
        inputs = checked(kind, folder / "inputs.npy", _array(folder / "inputs.npy"))[:count]
        labels = _labels(kind, folder / "labels.npy", len(inputs)) if (folder / "labels.npy").is_file() else None
        return Samples(inputs, labels)
    if kind.is_text:
        raise ModelError(f"{folder}: no inputs.npy: expected rows of {kind.shape[0]} tokens there")
    return _pictures(kind, folder, count)


def _array(path: Path) -> np.ndarray:
    return read_array(path, "an array written by numpy.save", ModelError)


def checked(kind: DatasetType, path: Path | str, found: np.ndarray) -> np.ndarray:
    """Return samples as models take them, validated; bytes are pictures and get normalised."""
    if found.ndim != len(kind.shape) + 1 or found.shape[1:] != kind.shape or not len(found):
        expected = " x ".join(str(side) for side in kind.shape)
        shape = " x ".join(str(side) for side in found.shape)
        raise ModelError(f"{path}: is {shape}: expected samples of {expected}, one after the other")
    if kind.is_text:
        if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= kind.vocabulary:
            raise ModelError(f"{path}: expected tokens, whole numbers from 0 to {kind.vocabulary - 1}")
        return found.astype(np.int64)
    if found.dtype == np.uint8:
        return _normalised(kind, found)
    if found.dtype.kind != "f" or not np.isfinite(found).all():
        raise ModelError(f"{path}: expected bytes, or finite numbers that are normalised already")
    return found.astype(np.float32)


def _normalised(kind: DatasetType, pixels: np.ndarray) -> np.ndarray:
    mean, deviation = (np.array(values, np.float32)[:, None, None] for values in (kind.mean, kind.deviation))
    return np.asarray((pixels.astype(np.float32) / 255 - mean) / deviation, np.float32)


def _labels(kind: DatasetType, path: Path, count: int) -> np.ndarray:
    labels = _array(path)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) < count:
        raise ModelError(f"{path}: expected a whole number for each of the {count} samples")
    if labels.min() < 0 or labels.max() >= kind.classes:
        raise ModelError(f"{path}: expected classes from 0 to {kind.classes - 1}")
    return labels[:count].astype(np.int64)


def _pictures(kind: DatasetType, folder: Path, count: int) -> Samples:
    """Return samples of pictures in one folder per class; classes are numbered in the order of their names."""
    try:
        from PIL import Image
    except ImportError:
        raise ModelError(f"{folder}: reading pictures needs Pillow: run `pip install 'slipstream[device]'`") from None

    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    if not classes or len(classes) > kind.classes:
        raise ModelError(
            f"{folder}: has {len(classes)} folders: expected inputs.npy, or up to {kind.classes} folders of pictures"
        )
    files = [sorted(p for p in entry.iterdir() if p.suffix.lower() in IMAGE_ENDINGS) for entry in classes]
    # Round robin over the classes, so that a few samples show many classes.
    turns = [(pick, label) for pick in range(max(map(len, files))) for label in range(len(files))]
    chosen = [(files[label][pick], label) for pick, label in turns if pick < len(files[label])][:count]
    if not chosen:
        raise ModelError(f"{folder}: no pictures: expected files that end with {', '.join(IMAGE_ENDINGS)}")
    channels, height, width = kind.shape
    pixels = np.empty((len(chosen), *kind.shape), np.uint8)
    for index, (path, _) in enumerate(chosen):
        with open_regular(path, "a picture", ModelError) as file:
            try:
                with Image.open(file) as picture:
                    if picture.width * picture.height > MOST_PIXELS:
                        raise ValueError(f"over {MOST_PIXELS:,} pixels")
                    shown = picture.convert("L" if channels == 1 else "RGB").resize((width, height))
            except Exception as error:  # readers of damaged pictures may raise anything
                raise ModelError(f"{path}: cannot be read ({error}): expected a picture") from None
        pixels[index] = np.asarray(shown).reshape(height, width, -1).transpose(2, 0, 1)
    return Samples(_normalised(kind, pixels), np.array([label for _, label in chosen], np.int64))
