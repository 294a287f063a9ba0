"""Others who commit to a chain at the same moment."""

from dtoss.commits.chain import Chain, Conflict


def others_are_faster(monkeypatch, *commits):
    """Call functions, one before each commit that is made from now on, the first of them first."""
    waiting, real = list(commits), Chain.append

    def append(self, document, after):
        if waiting:
            waiting.pop(0)()
        return real(self, document, after)

    monkeypatch.setattr(Chain, "append", append)


def others_are_always_faster(monkeypatch):
    """Let each commit that is made from now on find that another one was made."""

    def never(self, document, after):
        raise Conflict("too late")

    monkeypatch.setattr(Chain, "append", never)
