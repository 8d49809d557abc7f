"""How is one kernel spread over the host's processors? Fixed chunks, so that the bits don't depend on the count."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from backend.tensorcore.denormals import flush_denormals


class Workers:
    """A pool of ``count`` host threads, the caller's own among them."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or len(
            os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        )
        self._pool = ThreadPoolExecutor(
            max(1, self.count - 1), "tensorcore", initializer=flush_denormals, initargs=(True,)
        )

    def run(self, chunks: int, work: Callable[[int, int], None]) -> None:
        """Call ``work(chunk, thread)`` for every chunk; a thread that is done with one takes the next."""
        if chunks <= 1 or self.count == 1:
            for chunk in range(chunks):
                work(chunk, 0)
            return

        waiting = itertools.count()

        def share(thread: int) -> None:
            with np.errstate(all="ignore"):
                while (chunk := next(waiting)) < chunks:
                    work(chunk, thread)

        futures = [self._pool.submit(share, thread) for thread in range(1, min(self.count, chunks))]
        try:
            share(0)
        finally:
            wait(futures)  # none may go on writing when this has returned
        for future in futures:
            future.result()
