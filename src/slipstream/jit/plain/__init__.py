"""Compilation by Numba's documented means only; `slipstream.jit.private` has the same modules, faster."""
