"""How functions are compiled, linked and cached: the only package that knows Numba's insides.

`private` holds all that relies on private or undocumented members of Numba and llvmlite (listed in docs/numba.md);
`plain` holds the same functions by documented means, slower. `mode` chooses between them.
"""
