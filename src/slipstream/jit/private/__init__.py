"""Compilation through private members of Numba and llvmlite; `slipstream.jit.plain` has the same modules without."""
