"""Compiling as a step of the work that is shown, where numba keeps the code by itself: the kernels of planning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.engines.progress import show_step


@contextmanager
def show_compiling() -> Iterator[None]:
    """Show the kernel that is compiled while inside, if any; one that another one calls is no kernel of its own."""
    from numba.core.event import Event, Listener, install_listener

    class Kernels(Listener):
        """Is told by numba when it compiles."""

        begun = depth = 0
        before = ""

        def on_start(self, event: Event) -> None:
            """Show the kernel."""
            if not self.depth:
                self.begun += 1
                self.before = show_step(f"compiling once for this processor, kernel {self.begun}")
            self.depth += 1

        def on_end(self, event: Event) -> None:
            """Show it no longer."""
            self.depth -= 1
            if not self.depth:
                show_step(self.before)

    with install_listener("numba:compile", Kernels()):
        yield
