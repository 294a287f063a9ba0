"""Code of kernels that only kernels call: it is linked into its callers, and optimised and emitted there.

numba would optimise and emit each such kernel by itself, and its code once more in every kernel above it: a third of
the time that compiling takes.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_ENVIRONMENT = "_ZN08NumbaEnv"
"""How numba's variables begin that say where the environment of a function is."""


class LinkedCode(JITCodeLibrary):
    """Code for other code, which has no machine code of its own but the variables that numba writes to."""

    def _optimize_final_module(self) -> None:
        """Leave it to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True
        self._get_module_for_linking()  # kept from here on, for callers and for files
        emitted = self._codegen._create_empty_module(self.name)
        place = ir.IntType(8).as_pointer()
        for name in [variable.name for variable in self._final_module.global_variables]:
            if name.startswith(_ENVIRONMENT):
                variable = ir.GlobalVariable(emitted, place, name)
                variable.linkage, variable.initializer = "common", place(None)
        self._final_module: Any = llvmlite.binding.parse_assembly(str(emitted))
        super()._finalize_final_module()


class LinkedKernel(Compiler):
    """Compiles a function for other kernels alone."""

    def compile_extra(self, func: Any) -> Any:
        """Return what numba returns, with code that callers link."""
        self.state.library = LinkedCode(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()  # what keeps kernels asks for it
        return super().compile_extra(func)
