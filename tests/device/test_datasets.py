"""Dataset types and samples: from a seed, from arrays, from pictures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from slipstream.device.models.datasets import dataset_type, samples_of
from slipstream.errors import ModelError


@pytest.mark.parametrize("name", ["cifar10", "gtsrb", "imagenet", "text-128", "synthetic:3x64x64"])
def test_seeded_samples_have_the_shape_and_type_of_their_dataset(name):
    kind = dataset_type(name)
    samples = samples_of(kind, None, 7, 3)
    assert samples.inputs.shape == (3, *kind.shape)
    assert samples.inputs.dtype == kind.dtype
    assert samples.labels is None
    assert np.array_equal(samples.inputs, samples_of(kind, None, 7, 3).inputs)
    assert not np.array_equal(samples.inputs, samples_of(kind, None, 8, 3).inputs)


def test_arrays_of_a_folder_are_normalised_and_labelled(tmp_path):
    kind = dataset_type("cifar10")
    np.save(tmp_path / "inputs.npy", np.full((5, 3, 32, 32), 255, np.uint8))
    np.save(tmp_path / "labels.npy", np.arange(5))
    samples = samples_of(kind, tmp_path, 0, 4)
    assert samples.labels.tolist() == [0, 1, 2, 3]
    assert np.allclose(samples.inputs[0, 0], (1 - kind.mean[0]) / kind.deviation[0])


def test_pictures_come_in_turn_from_the_folders_of_their_classes(tmp_path):
    for label, colour in enumerate(["red", "blue"]):
        (tmp_path / f"class-{label}").mkdir()
        for number in range(2):
            Image.new("RGB", (50, 40), colour).save(tmp_path / f"class-{label}" / f"{number}.png")
    kind = dataset_type("synthetic:3x8x8")
    samples = samples_of(kind, tmp_path, 0)
    assert samples.labels.tolist() == [0, 1, 0, 1]
    assert samples.inputs.shape == (4, 3, 8, 8)
    assert samples.inputs[0, 0].mean() > samples.inputs[0, 2].mean()


@pytest.mark.parametrize("name", ["coco", "synthetic", "synthetic:3x64", "synthetic:0x1x1", "synthetic:3x9999x9999"])
def test_an_unknown_dataset_is_told(name):
    with pytest.raises(ModelError, match="expected"):
        dataset_type(name)


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros((2, 3, 16, 16), np.uint8), "is 2 x 3 x 16 x 16: expected samples of 3 x 32 x 32"),
        (np.full((2, 3, 32, 32), np.nan), "expected bytes, or finite numbers"),
        (np.zeros((2, 3, 32, 32), "i8"), "expected bytes, or finite numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_told(tmp_path, array, told):
    np.save(tmp_path / "inputs.npy", array)
    with pytest.raises(ModelError, match=told):
        samples_of(dataset_type("cifar10"), tmp_path, 0)


def test_labels_and_tokens_are_checked(tmp_path):
    np.save(tmp_path / "inputs.npy", np.full((2, 128), 8192))
    with pytest.raises(ModelError, match="whole numbers from 0 to 8191"):
        samples_of(dataset_type("text-128"), tmp_path, 0)
    np.save(tmp_path / "inputs.npy", np.zeros((2, 128), "i8"))
    np.save(tmp_path / "labels.npy", np.array([0, 2]))
    with pytest.raises(ModelError, match="classes from 0 to 1"):
        samples_of(dataset_type("text-128"), tmp_path, 0)


def test_an_array_of_objects_is_not_unpickled(tmp_path):
    np.save(tmp_path / "inputs.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ModelError, match="cannot be read"):
        samples_of(dataset_type("cifar10"), tmp_path, 0)


def test_an_empty_or_missing_folder_is_told(tmp_path):
    with pytest.raises(ModelError, match="no such folder"):
        samples_of(dataset_type("cifar10"), tmp_path / "none", 0)
    with pytest.raises(ModelError, match=r"has 0 folders: expected inputs\.npy, or up to 10 folders"):
        samples_of(dataset_type("cifar10"), tmp_path, 0)
