"""--watch: show something anew until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

INTERVAL_SECONDS = 1.0
CLEAR = "\x1b[H\x1b[J"


def repeat(show: Callable[[], None], watch: bool) -> None:
    """Call ``show`` once, or with ``watch`` again every second; a terminal is cleared in between."""
    if not watch:
        show()
        return
    try:
        while True:
            if sys.stdout.isatty():
                print(CLEAR, end="")
            show()
            sys.stdout.flush()
            time.sleep(INTERVAL_SECONDS)
    except KeyboardInterrupt:
        return
