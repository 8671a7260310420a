"""The other processes: lost ones are named instead of waited for, and restarts find no trace of the dead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch.distributed import DistError

_LOST = re.compile(r"gloo|connection (closed|reset|refused)|timed? ?out|broken pipe|DistNetworkError", re.IGNORECASE)


class PeersLost(ConnectionError):
    """Another process does not answer."""


@contextmanager
def naming_lost_peers(rank: int, ranks: int, *, patience: str, advice: str) -> Iterator[None]:
    """Turn the engine's error about a process that does not answer into one line for a person.

    `patience` says how long is waited, in the words of the command, `advice` what to do.
    """
    try:
        yield
    except RuntimeError as error:
        if ranks == 1 or not (isinstance(error, DistError) or _LOST.search(str(error))):
            raise
        reason = str(error).strip().splitlines()[0]
        raise PeersLost(
            f"process {rank} of {ranks} cannot reach the others ({patience}): {reason}. {advice}"
        ) from error


def check_restarts(environment: Mapping[str, str]) -> None:
    """Refuse `torchrun --max-restarts` where a restarted process would meet the addresses of those that died.

    Processes find each other through a store. torchrun lends them its own, which outlives them, and nothing in it
    tells one attempt from the next; with a store of the first process's own every attempt begins with an empty one.
    """
    restarts = environment.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    shared = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if restarts and shared and environment.get("WORLD_SIZE", "1") != "1":
        raise ValueError(
            "torchrun --max-restarts cannot restart this run: new processes would find the addresses of dead ones; "
            "needed TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before torchrun, and --standalone or --rdzv-backend=c10d"
        )
