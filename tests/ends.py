"""How processes of tests end in the midst of their work."""

import os


def end_now(code):
    """End this process, which was forked, as a kill would: nothing is cleared up, nothing flushed."""
    os._exit(code)
