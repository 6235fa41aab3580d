"""Workers: the same is done with one thing after the other, on all cores, until nobody waits any more."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from duckanon.database import interrupts

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator, Iterator

Given = TypeVar("Given")
Done = TypeVar("Done")


def on_all_cores(
    work: Callable[[Given], Done], stream: Iterator[Given], ended: threading.Event
) -> Generator[Done, None, None]:
    """Yield what workers, one a core, make of a stream, in its order.

    Parameters
    ----------
    work : callable
        What is done, in a worker.
    stream : iterator
        What it is done with; one more than there are cores are read ahead.
    ended : threading.Event
        Set in the end, whatever ends it: nobody waits for what is still being done, which may ask for it.

    Yields
    ------
    object
        Results, in the order of the stream.
    """
    cores = os.cpu_count() or 1
    waiting: deque[Future[Done]] = deque()

    def end() -> None:
        ended.set()
        for future in waiting:
            future.cancel()

    with ThreadPoolExecutor(cores) as pool, interrupts.cleanup(None, end):
        for given in stream:
            waiting.append(pool.submit(work, given))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
