"""Lost ranks: an error in one line instead of an endless wait, and restarts that do not meet dead addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch.distributed import DistError

_LOST = re.compile(r"gloo|connection (closed|reset|refused)|timed? ?out|broken pipe|DistNetworkError", re.IGNORECASE)


class PeersLost(ConnectionError):
    """Another rank does not answer."""


@contextmanager
def naming_lost_peers(rank: int, ranks: int, *, patience: str, advice: str) -> Iterator[None]:
    """Replace torch's error about a rank that does not answer by one line.

    `patience` is the setting that says how long to wait, `advice` what to do.
    """
    try:
        yield
    except RuntimeError as error:
        if ranks == 1 or not (isinstance(error, DistError) or _LOST.search(str(error))):
            raise
        reason = str(error).strip().splitlines()[0]
        raise PeersLost(f"rank {rank} of {ranks} cannot reach the others ({patience}): {reason}. {advice}") from error


def check_restarts(environment: Mapping[str, str]) -> None:
    """Refuse `torchrun --max-restarts` if a restarted rank would read the addresses of ranks that died.

    Ranks find each other through a store. torchrun lends them its own, which outlives them and does not tell one
    attempt from the next. A store of rank 0 is empty at each attempt.
    """
    restarts = environment.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    shared = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if restarts and shared and environment.get("WORLD_SIZE", "1") != "1":
        raise ValueError(
            "torchrun --max-restarts cannot restart this run: new processes would find the addresses of dead ones; "
            "needed TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before torchrun, and --standalone or --rdzv-backend=c10d"
        )
