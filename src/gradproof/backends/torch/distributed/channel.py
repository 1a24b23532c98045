"""The leader's requests and the other ranks' replies, through a store of this check's own.

The process groups that the function communicates with are left to the function: a request that travelled through one
of them would meet a collective that hangs. A store has no such state. It lives in the leader's process; where that
dies, everybody's next look at it raises.
"""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

LEADER = 0
"""The rank, of its group, that asks."""
_LOOK = timedelta(seconds=1)
"""How long one look at the store takes at most, so that Ctrl-C is heard."""


class LeaderLostError(RuntimeError):
    """The store is gone, and so is the process that held it."""


class Reply(NamedTuple):
    """What a rank answered: a value, or in words the exception that its part of the question raised."""

    value: Any = None
    error: Any = None


class Channel:
    """One rank's end. Requests are numbered; each rank sees its own part of each."""

    def __init__(self, group: dist.ProcessGroup, timeout: float) -> None:
        """Collective: every rank of the group makes one. `timeout` is for connecting, in seconds."""
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        hosts: list[Any] = [None] * self.size
        dist.all_gather_object(hosts, socket.gethostname(), group=group)
        host = "localhost" if len(set(hosts)) == 1 else hosts[LEADER]
        patience = timedelta(seconds=timeout)
        address: list[Any] = [None]
        if self.is_leader:
            self._store: Any = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=patience)
            address = [self._store.port]
        dist.broadcast_object_list(address, src=dist.get_global_rank(group, LEADER), group=group)
        if not self.is_leader:
            self._store = TCPStore(host, address[0], is_master=False, timeout=patience)
        self._number = 0

    @property
    def is_leader(self) -> bool:
        return self.rank == LEADER

    def others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    # the leader's side

    def ask(self, parts: Sequence[Any]) -> None:
        """Send everybody their part of a request."""
        self._number += 1
        for rank in self.others():
            self._store.set(f"request {self._number} of {rank}", pickle.dumps(parts[rank]))

    def replies(self, until: float) -> dict[int, Reply]:
        """The replies to the last request that arrive before a time (of `time.monotonic`), by rank."""
        found: dict[int, Reply] = {}
        for rank in self.others():
            text = self._read(f"reply {self._number} of {rank}", until)
            if text is not None:
                found[rank] = pickle.loads(text)
        return found

    # the others' side

    def request(self) -> Any:
        """The next request; waits for it as long as the leader lives."""
        self._number += 1
        text = self._read(f"request {self._number} of {self.rank}", float("inf"))
        assert text is not None
        return pickle.loads(text)

    def reply(self, reply: Reply) -> None:
        """Answer the last request."""
        try:
            self._store.set(f"reply {self._number} of {self.rank}", pickle.dumps(reply))
        except RuntimeError as error:
            raise LeaderLostError(str(error)) from error

    # both

    def _read(self, key: str, until: float) -> bytes | None:
        """What is stored there, which is deleted then; None: nothing by that time."""
        while True:
            try:
                left = until - time.monotonic()
                self._store.wait([key], min(_LOOK, timedelta(seconds=max(left, 0.001))) if left < 1 else _LOOK)
                text = self._store.get(key)
                self._store.delete_key(key)
                return text
            except dist.DistStoreError:  # not there yet
                if time.monotonic() >= until:
                    return None
            except RuntimeError as error:  # the connection is gone
                raise LeaderLostError(str(error)) from error
