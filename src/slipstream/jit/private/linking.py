"""Linking of functions that only compiled code calls into those that Python calls.

Numba makes machine code of every function with all its callees linked in, and so optimises the innermost functions
again at every level above them. Here a function stays intermediate code until a function that Python calls links it:
only there all are optimised, together, and become machine code.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import binding
from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.types import unliteral  # type: ignore[attr-defined]

ENVIRONMENT = "_ZN08NumbaEnv"
"""Prefix of the globals that Numba fills in for every function, in the engine that runs machine code."""


class InnerLibrary(JITCodeLibrary):
    """A function and its callees, to be linked into callers; the engine gets only the globals that Numba fills in."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the callers optimise."""

    def _finalize_final_module(self) -> None:
        self._finalized = True
        code = self._get_module_for_linking()
        filled_in = [str(one) for one in code.global_variables if one.name.startswith(ENVIRONMENT)]
        header = str(self._codegen._create_empty_module(self.name))
        self._final_module = binding.parse_assembly("\n".join([header, *filled_in]))
        super()._finalize_final_module()


class InnerCompiler(Compiler):
    """Numba's compiler, with an `InnerLibrary` as its output."""

    def compile_extra(self, function: Any) -> Any:
        """Compile a Python function."""
        library = InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(function)


OPTIONS: dict[str, Any] = {"pipeline_class": InnerCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of Numba's decorator for such functions."""


def link_only(compiled: Any) -> Any:
    """Return the dispatcher `compiled`, made with OPTIONS, with one overload for all constants of the same type.

    Numba would compile it once more for every constant that a caller passes. A call from Python, as tests make them,
    goes through a wrapper that is compiled at the first such call.
    """
    with_constants = compiled.get_call_template

    def without_constants(arguments: Any, keywords: dict[str, Any]) -> Any:
        return with_constants(tuple(map(unliteral, arguments)), {key: unliteral(of) for key, of in keywords.items()})

    @functools.cache
    def wrapper() -> Any:
        return njit(lambda *values: compiled(*values))

    compiled.get_call_template = without_constants
    # A call from Python searches a table of machine code first. It stays empty, so that every call asks for a
    # compilation, and gets the wrapper.
    compiled._insert = lambda *_: None
    compiled._compile_for_args = lambda *_: wrapper()
    return compiled
