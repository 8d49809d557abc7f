"""A stand-in for the slice runtime: a real process that announces itself and obeys SIGTERM, and has no chips.

FAKE_RUNTIME in the environment makes it misbehave: ``fail`` (says why and ends), ``hang`` (never ready), ``deaf``
(ignores SIGTERM).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("--directory", "--name", "--type", "--host", "--port"):
        parser.add_argument(option, required=True)
    for option in ("--topology", "--slices"):
        parser.add_argument(option)
    options = parser.parse_args()
    directory = Path(options.directory)
    behaviour = os.environ.get("FAKE_RUNTIME", "")
    if behaviour == "fail":
        (directory / "runtime-error.json").write_text(json.dumps({"code": 9, "message": "no chips today"}))
        return 4
    ended: list[int] = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else lambda number, _: ended.append(number))
    if behaviour != "hang":
        part = directory / "runtime.part"
        part.write_text(json.dumps({"pid": os.getpid(), "name": options.name}))
        part.rename(directory / "runtime.json")
    while not ended:
        time.sleep(0.01)
    (directory / "runtime.json").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
