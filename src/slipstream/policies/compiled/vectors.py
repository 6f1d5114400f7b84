"""Arithmetic under the operations, compiled: views of flat arrays as matrices, and loops over their rows."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import algebra, kernel, reduction

ZERO, HALF, ONE, INFINITE = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(np.inf)


@kernel
def copy_rows(source, begin, target, first, count):
    """Copy `count` rows of `source`, from `begin` on, to the rows of `target` from `first` on.

    An assignment of slices does the same, but Numba also compiles its error for different shapes, which takes long.
    """
    for row in range(count):
        for column in range(source.shape[1]):
            target[first + row, column] = source[begin + row, column]


@algebra
def matrix(flat, offset, rows, columns):
    """Return the view of `flat` from `offset` on as a matrix of `rows` by `columns`."""
    return flat[offset : offset + rows * columns].reshape((rows, columns))


@reduction
def weighted_sums(source, weight, bias, target):
    """Write `source` @ `weight` + `bias` to the single column of `target`."""
    for row in range(source.shape[0]):
        total = bias
        for j in range(source.shape[1]):
            total += source[row, j] * weight[j]
        target[row, 0] = total


@algebra
def add_bias(target, vector, rectify):
    """Add `vector` to every row of `target`; apply a ReLU if `rectify`."""
    floor = ZERO if rectify else -INFINITE
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] = max(target[row, j] + vector[j], floor)


@algebra
def add_bias_per_choice(target, vector, of_choice, starts, rectify):
    """Add `vector` and the vector of its choice to every row of `target`; apply a ReLU if `rectify`."""
    floor = ZERO if rectify else -INFINITE
    for choice in range(of_choice.shape[0]):
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(target.shape[1]):
                target[row, j] = max(target[row, j] + (vector[j] + of_choice[choice, j]), floor)


@algebra
def tanh_activation(registers, offset, size):
    """Replace `size` registers from `offset` on by their hyperbolic tangent."""
    values = registers[offset : offset + size]
    for index in range(size):
        values[index] = np.tanh(values[index])


@algebra
def add_vector(registers, target, source, size):
    """Add `size` registers from `source` on to those from `target` on."""
    total, term = registers[target : target + size], registers[source : source + size]
    for index in range(size):
        total[index] += term[index]


@algebra
def sum_rows(source, target):
    """Add every row of `source` to the vector `target`, four rows per pass to save loads and stores of the vector."""
    fours = source.shape[0] - source.shape[0] % 4
    for row in range(0, fours, 4):
        for j in range(source.shape[1]):
            target[j] += (source[row, j] + source[row + 1, j]) + (source[row + 2, j] + source[row + 3, j])
    for row in range(fours, source.shape[0]):
        for j in range(source.shape[1]):
            target[j] += source[row, j]


@algebra
def add_product(target, a, b, scratch):
    """Add the matrix product of `a` and `b` to `target`; `scratch` holds the product."""
    product = matrix(scratch, 0, target.shape[0], target.shape[1])
    np.dot(a, b, product)
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] += product[row, j]
