"""Built-in networks: five families in plain torch.nn, five variants each, from small to large.

They are a realistic load: real layers at real sizes. Their weights are random, from a seed that the address determines,
unless a file of weights is given.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from slipstream.device.models.datasets import DatasetType
from slipstream.errors import ModelError


def _convolution(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution that keeps the picture's size (divided by its stride), normalised and rectified."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def _stem_stride(kind: DatasetType) -> int:
    """Return the stride of the first layer, larger for larger pictures."""
    return 1 if kind.shape[1] <= 40 else 2 if kind.shape[1] <= 96 else 4


def _head(features: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes))


class Residual(nn.Module):
    """Residual block: two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(inputs, outputs, 3, stride),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.way_around = nn.Identity() if inputs == outputs and stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return torch.relu(self.body(x) + self.way_around(x))


def _resnet(variant: int, kind: DatasetType) -> nn.Module:
    width, blocks = [(16, 1), (24, 1), (32, 2), (48, 2), (64, 3)][variant]
    layers: list[nn.Module] = [_convolution(kind.shape[0], width, 3, _stem_stride(kind))]
    inputs = width
    for stage in range(3):
        for block in range(blocks):
            layers.append(Residual(inputs, width << stage, 2 if stage and block == 0 else 1))
            inputs = width << stage
    return nn.Sequential(*layers, _head(inputs, kind.classes))


def _vgg(variant: int, kind: DatasetType) -> nn.Module:
    width, convolutions = [(16, 1), (24, 1), (32, 2), (48, 2), (64, 3)][variant]
    layers: list[nn.Module] = [_convolution(kind.shape[0], width, 3, _stem_stride(kind))]
    inputs = width
    for stage in range(4):
        for _ in range(convolutions):
            layers.append(_convolution(inputs, width << min(stage, 2)))
            inputs = width << min(stage, 2)
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    classifier = nn.Sequential(nn.Linear(inputs, 4 * inputs), nn.ReLU(), nn.Linear(4 * inputs, kind.classes))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier)


class InvertedResidual(nn.Module):
    """Inverted residual block: expansion, depthwise convolution, projection."""

    def __init__(self, inputs: int, outputs: int, stride: int, widening: int = 4) -> None:
        super().__init__()
        inner = inputs * widening
        self.body = nn.Sequential(
            _convolution(inputs, inner, 1),
            _convolution(inner, inner, 3, stride, groups=inner),
            nn.Conv2d(inner, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.adds = inputs == outputs and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        narrowed: Tensor = self.body(x)
        return x + narrowed if self.adds else narrowed


def _mobilenet(variant: int, kind: DatasetType) -> nn.Module:
    width, blocks = [(8, 1), (16, 1), (16, 2), (24, 3), (32, 4)][variant]
    layers: list[nn.Module] = [_convolution(kind.shape[0], width, 3, _stem_stride(kind))]
    inputs = width
    for stage in range(3):
        for block in range(blocks):
            layers.append(InvertedResidual(inputs, width << stage, 2 if block == 0 else 1))
            inputs = width << stage
    return nn.Sequential(*layers, _head(inputs, kind.classes))


class Encoder(nn.Module):
    """Transformer encoder over embedded tokens, with a classifier on their mean."""

    def __init__(self, embedding: nn.Module, length: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.position = nn.Parameter(torch.randn(1, length, width) * 0.02)
        layers = [
            nn.TransformerEncoderLayer(width, width // 32, 4 * width, batch_first=True, norm_first=True)
            for _ in range(depth)
        ]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each class."""
        tokens: Tensor = self.embedding(x)
        result: Tensor = self.head(self.layers(tokens + self.position).mean(1))
        return result


ENCODER_SIZES = [(64, 1), (96, 2), (128, 3), (192, 4), (256, 6)]
"""Width and depth of the five variants."""


def _vit(variant: int, kind: DatasetType) -> nn.Module:
    width, depth = ENCODER_SIZES[variant]
    channels, height, across = kind.shape
    side = max(1, min(height, across) // 8)
    patches = nn.Sequential(nn.Conv2d(channels, width, side, side), nn.Flatten(2), Transposed())
    return Encoder(patches, (height // side) * (across // side), width, depth, kind.classes)


class Transposed(nn.Module):
    """Swaps the last two axes."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the transposed matrices."""
        return x.transpose(1, 2)


def _transformer(variant: int, kind: DatasetType) -> nn.Module:
    width, depth = ENCODER_SIZES[variant]
    return Encoder(nn.Embedding(kind.vocabulary, width), kind.shape[0], width, depth, kind.classes)


_BUILDERS: dict[str, Callable[[int, DatasetType], nn.Module]] = {
    "resnet": _resnet,
    "vgg": _vgg,
    "mobilenet": _mobilenet,
    "vit": _vit,
    "transformer": _transformer,
}


def build(family: str, variant: int, kind: DatasetType, seed: int) -> nn.Module:
    """Return a network with random weights of `seed`; the global random state is unchanged."""
    if kind.is_text != (family == "transformer"):
        takes = "texts, such as text-128" if family == "transformer" else "pictures, such as cifar10"
        raise ModelError(f"builtin:{family} on dataset '{kind.name}': expected {takes}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _BUILDERS[family](variant, kind).eval()
