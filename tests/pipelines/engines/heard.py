"""What a test hears on stderr, and when."""

from __future__ import annotations

import io
import re
import threading


class Heard(io.StringIO):
    """What is written, and an event once a pattern is found in it."""

    def __init__(self, text, terminal=False):
        super().__init__()
        self.text, self.terminal, self.there = text, terminal, threading.Event()

    def isatty(self):
        return self.terminal

    def write(self, written):
        super().write(written)
        if re.search(self.text, self.getvalue()):
            self.there.set()
        return len(written)
