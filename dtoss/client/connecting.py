"""How a client finds its server, or one of several."""

from __future__ import annotations

from dtoss.client.endpoint import read_peers
from dtoss.client.remote_index import RemoteIndex


def connect(
    url: str | None = None,
    token: str | None = None,
    snapshot: str | None = None,
    timeout: float = 60.0,
    *,
    peers: str | None = None,
) -> RemoteIndex:
    """Return the index that a server has open, or several servers of a plan together.

    Parameters
    ----------
    url
        Of ``dtoss serve``, or of a proxy before it, such as ``http://127.0.0.1:8080``.
    token
        Where the server wants one. It is in no message, but it is in the bytes that an index is pickled to.
    snapshot
        Answer from this one alone; a :class:`~dtoss.StoreError` says when the server has it open no more. None follows
        what is current: each answer is of one snapshot, the next one may be of a newer.
    timeout
        Seconds that an answer may take to go on.
    peers
        File of where the servers of a plan are, instead of a URL. Any of them answers for all; where one cannot be
        reached, the next one is asked. The file's token is taken where none is given.

    Raises
    ------
    ValueError
        If the URL, the token or the timeout is none, or both a URL and peers are given.
    InputError
        If the file of peers cannot be read.
    StoreError
        If the snapshot is not open.
    DtossError
        If the server cannot be reached, or does not know the token.
    """
    if (url is None) == (peers is None):
        raise ValueError("connect needs a URL or peers=, and not both")
    if peers is not None:
        known = read_peers(peers)
        url, *others = map(str, known.addresses.values())
        index = RemoteIndex(url, token or known.token, snapshot, timeout, tuple(others))
    else:
        assert url is not None
        index = RemoteIndex(url, token, snapshot, timeout)
    index._server.facts()
    return index
