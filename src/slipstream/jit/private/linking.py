"""Compiling what only compiled code calls, once for each of its callers that Python can call, and no more often.

Numba brings every function to machine code, with all that it calls built in, and so does the work of the innermost
again at every level above them. Here functions stay as they were translated until one that Python calls takes them
in: only there they are optimised, all together, and become machine code.
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
"""Begin of the names of what Numba fills in for every function, in the engine that runs machine code."""


class InnerLibrary(JITCodeLibrary):
    """A function, with those it calls, to be linked into callers; the engine gets nothing but what Numba fills in."""

    def _optimize_final_module(self) -> None:
        """Leave that to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalized = True
        code = self._get_module_for_linking()
        filled_in = [str(one) for one in code.global_variables if one.name.startswith(ENVIRONMENT)]
        header = str(self._codegen._create_empty_module(self.name))
        self._final_module = binding.parse_assembly("\n".join([header, *filled_in]))
        super()._finalize_final_module()


class InnerCompiler(Compiler):
    """Numba's compiler, into such a library."""

    def compile_extra(self, function: Any) -> Any:
        """Compile a Python function."""
        library = InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(function)


OPTIONS: dict[str, Any] = {"pipeline_class": InnerCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Of Numba's decorator, for such functions."""


def keep_inside(compiled: Any) -> Any:
    """Let a function that was decorated with OPTIONS be called by compiled code, the same code for any constant.

    Numba would compile it once more for every constant that a call hands over. A call from Python, as tests make them,
    goes through a function of its own.
    """
    with_constants = compiled.get_call_template

    def get_call_template(arguments: Any, keywords: dict[str, Any]) -> Any:
        return with_constants(tuple(map(unliteral, arguments)), {key: unliteral(of) for key, of in keywords.items()})

    @functools.cache
    def door() -> Any:
        return njit(lambda *values: compiled(*values))

    compiled.get_call_template = get_call_template
    # Python looks for machine code in a table first: it stays empty, so that every call asks for it, and gets the door.
    compiled._insert = lambda *_: None
    compiled._compile_for_args = lambda *_: door()
    return compiled
