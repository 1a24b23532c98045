"""Start the ranks of a check on this machine, for tests."""

from __future__ import annotations

import operator
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def launch(
    function: Callable[..., Any], ranks: int, *arguments: Any, timeout: float = 300.0, may_die: bool = False
) -> list[Any]:
    """What `function(*arguments)` returns on each of so many ranks: processes with a process group (gloo) among them.

    The function must be importable by the new processes (defined at the top of a module), and what it returns must be
    picklable, as reports are. If a rank raises, or ends without returning, this raises; with `may_die`, a rank that
    ends has None.
    """
    if isinstance(ranks, bool) or operator.index(ranks) < 1:
        raise ValueError(f"ranks is the number of processes, at least 1: got {ranks!r}")
    with tempfile.TemporaryDirectory() as folder:
        spawn: Any = multiprocessing.spawn  # pyright: ignore[reportPrivateImportUsage]
        processes = spawn(_rank, (function, ranks, folder, timeout, arguments), nprocs=ranks, join=False)
        for process in processes.processes:
            process.join(timeout)
            if process.is_alive():
                process.kill()
                process.join()
        codes = {rank: process.exitcode for rank, process in enumerate(processes.processes) if process.exitcode}
        failed = [Path(folder, f"{rank}.error") for rank in range(ranks)]
        for path in failed:
            if path.exists():
                raise RuntimeError(f"rank {path.stem} raised:\n{path.read_text()}")
        if codes and not may_die:
            told = ", ".join(f"rank {rank} ended with code {code}" for rank, code in codes.items())
            raise RuntimeError(f"{told} before it returned: a negative code is the signal that ended it")
        results = [Path(folder, f"{rank}.result") for rank in range(ranks)]
        return [pickle.loads(path.read_bytes()) if path.exists() else None for path in results]


def _rank(rank: int, function: Callable[..., Any], ranks: int, folder: str, timeout: float, arguments: Any) -> None:
    method = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout))
    try:
        result = pickle.dumps(function(*arguments))
        Path(folder, f"{rank}.result").write_bytes(result)
    except BaseException:
        Path(folder, f"{rank}.error").write_text(traceback.format_exc())
    os._exit(0)  # a group that broke would not let the process end
