"""How functions are compiled, linked and cached: the only package that knows Numba's insides."""
