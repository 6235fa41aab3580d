"""Workers: apply one function to a stream of inputs on all cores, until the caller stops."""

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
    """Yield `work` of each item of a stream in order, computed by one worker a core.

    One item more than there are cores is read ahead. `ended` is set at the end, for any reason, so that
    workers can stop.
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
