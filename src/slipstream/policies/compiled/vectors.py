"""The arithmetic under the operations, compiled: parts of flat arrays as matrices, and what is done to their rows."""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import algebra, kernel, reduction

ZERO, HALF, ONE, INFINITE = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(np.inf)


@kernel
def copy_rows(source, begin, goal, first, count):
    """Copy rows, from `begin` of the source on, to those from `first` on.

    An assignment of slices would do as much, but compiles what it says of shapes that do not agree, which takes long.
    """
    for row in range(count):
        for column in range(source.shape[1]):
            goal[first + row, column] = source[begin + row, column]


@algebra
def matrix(flat, place, rows, columns):
    """Return a part of a flat array as a matrix."""
    return flat[place : place + rows * columns].reshape((rows, columns))


@reduction
def weighted_sums(source, weight, bias, target):
    """Write the product of a matrix and a vector."""
    for row in range(source.shape[0]):
        total = bias
        for j in range(source.shape[1]):
            total += source[row, j] * weight[j]
        target[row, 0] = total


@algebra
def shift(target, vector, rectify):
    """Add a vector to every row, and cut off what is negative where asked to."""
    floor = ZERO if rectify else -INFINITE
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] = max(target[row, j] + vector[j], floor)


@algebra
def shift_choices(target, vector, of_choice, starts, rectify):
    """Add a vector, and that of its choice, to every row, and cut off what is negative where asked to."""
    floor = ZERO if rectify else -INFINITE
    for choice in range(of_choice.shape[0]):
        for row in range(starts[choice], starts[choice + 1]):
            for j in range(target.shape[1]):
                target[row, j] = max(target[row, j] + (vector[j] + of_choice[choice, j]), floor)


@algebra
def bend(registers, place, size):
    """Write the hyperbolic tangent of some numbers in their place."""
    goal = registers[place : place + size]
    for index in range(size):
        goal[index] = np.tanh(goal[index])


@algebra
def add_vector(registers, target, source, size):
    """Add numbers at one place to those at another."""
    goal, term = registers[target : target + size], registers[source : source + size]
    for index in range(size):
        goal[index] += term[index]


@algebra
def sum_rows(source, goal):
    """Add every row to a vector, four at a time: the vector is read and written as often as that."""
    fours = source.shape[0] - source.shape[0] % 4
    for row in range(0, fours, 4):
        for j in range(source.shape[1]):
            goal[j] += (source[row, j] + source[row + 1, j]) + (source[row + 2, j] + source[row + 3, j])
    for row in range(fours, source.shape[0]):
        for j in range(source.shape[1]):
            goal[j] += source[row, j]


@algebra
def add_product(target, a, b, room):
    """Add the matrix product of a and b to the target."""
    product = matrix(room, 0, target.shape[0], target.shape[1])
    np.dot(a, b, product)
    for row in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[row, j] += product[row, j]
