"""Colours: told apart by readers with a colour vision deficiency, and with text that can be read on them."""

from __future__ import annotations

import json
import re
from importlib import resources
from itertools import combinations

import numpy as np
import pytest

from slipstream.render.style import PALETTE, round_times, text_on

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
LEAST_DISTANCE = 10.0


def linear(colour):
    values = np.array(list(bytes.fromhex(colour.lstrip("#")))) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Return CIE L*a*b*, in which distances are those that are seen."""
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_of_tasks_are_told_apart(vision):
    seen = [lab(VISIONS[vision] @ linear(colour)) for colour in PALETTE]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) >= LEAST_DISTANCE


def test_text_on_a_colour_has_the_contrast_of_large_text():
    for colour in PALETTE:
        darker, lighter = sorted(
            float(linear(one) @ np.array([0.2126, 0.7152, 0.0722])) for one in (colour, text_on(colour))
        )
        assert (lighter + 0.05) / (darker + 0.05) >= 3.0


def test_the_page_has_the_same_colours_and_the_same_text_on_them():
    script = resources.files("slipstream.reports").joinpath("assets/charts.js").read_text(encoding="utf-8")
    listed = ", ".join(f'"{colour}"' for colour in PALETTE)
    light = ", ".join(f'"{colour}"' for colour in PALETTE if text_on(colour) == "#ffffff")
    assert f"const PALETTE = [{listed}];" in script
    assert f"LIGHT_TEXT = new Set([{light}])" in script


@pytest.mark.parametrize("vision", VISIONS)
def test_lines_on_a_dark_page_are_bright_enough_and_told_apart(vision):
    script = resources.files("slipstream.reports").joinpath("assets/charts.js").read_text(encoding="utf-8")
    brighter = json.loads(re.search(r"LINES_ON_DARK = (\{.*?\})", script)[1])
    assert set(brighter) <= set(PALETTE)
    lines = [brighter.get(colour, colour) for colour in PALETTE]
    page, *light = (float(linear(one) @ np.array([0.2126, 0.7152, 0.0722])) for one in ("#14181f", *lines))
    assert min((one + 0.05) / (page + 0.05) for one in light) >= 3.0
    seen = [lab(VISIONS[vision] @ linear(colour)) for colour in lines]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) >= LEAST_DISTANCE


@pytest.mark.parametrize(
    ("begin", "end", "step", "first"),
    [(0, 831.1, 200.0, 0.0), (5530, 6771, 200.0, 5600.0), (0, 0.9, 0.2, 0.0), (37.39, 40.68, 0.5, 37.5)],
)
def test_marks_of_a_time_axis_are_round(begin, end, step, first):
    found, times = round_times(begin * 1e9, end * 1e9, 1e9)
    assert found == pytest.approx(step)
    assert times[0] == pytest.approx(first * 1e9)
    assert 4 <= len(times) <= 11
    assert times[-1] <= end * 1e9
