"""Which calls the token of a request may make: the table says it, and a route without a row is nobody's."""

from __future__ import annotations

from typing import Any

from dtoss.serve.answers.responses import Asker
from dtoss.serve.auth.route_table import ADMINS, CALLS, GETS_NOTHING, GETS_SUMS, OPEN, Call
from dtoss.serve.auth.tokens import ADMIN, ADMITTED, AGGREGATES, EVERYBODY, Token
from dtoss.serve.core.problems import Problem
from dtoss.serve.state.worker_state import WorkerState

_CALLS: dict[tuple[str, str], Call] = {(call.method, call.path): call for call in CALLS}


def token_of(request: Asker) -> Token:
    """Return the token of a request that has passed the doors."""
    scope: Any = request.scope
    token: Token = scope[ADMITTED]
    return token


def check_call(state: WorkerState, request: Asker) -> None:
    """Refuse a call that a token may not make, or whose answer would tell of what it may not see."""
    scope: Any = request.scope
    path, token = scope["path_template"], scope.get(ADMITTED, EVERYBODY)
    call = _CALLS.get((str(request.method), path))
    if call is None:
        if token.narrowed:
            raise Problem(403, f"{path} is for tokens that may see all", limit="token")
        return
    if call.who == OPEN:
        return
    if call.who == ADMINS and not state.doors.is_admin(token):
        raise Problem(
            403, f"{path} is for admins: the line of the token in --token-file has to have the word {ADMIN}",
            limit="token",
        )  # fmt: skip
    if call.narrowed == GETS_SUMS:
        check_sums(token, path)
    elif call.narrowed == GETS_NOTHING:
        check_whole(token, path)


def check_sums(token: Token, what: str) -> None:
    """Refuse sums over all objects to a token that may not see all."""
    if not token.sums:
        raise Problem(
            403,
            f"{what} tells sums over all objects, and this token may see some: its line in --token-file has to have "
            f"the word {AGGREGATES}",
            limit="token",
        )


def check_whole(token: Token, what: str) -> None:
    """Refuse what is made of all objects to a token whose objects have a condition."""
    if token.where is not None:
        raise Problem(
            403, f"{what} is made of all objects, of which this token may see some: ask for objects by /knn, /range, "
            "/box or /within", limit="token",
        )  # fmt: skip
