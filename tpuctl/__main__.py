"""The entry point: ``tpuctl`` and ``python -m tpuctl``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    if "_TPUCTL_COMPLETE" in os.environ:  # a shell's Tab waits: answer before the command line is imported
        from tpuctl.cli import tab

        found = tab.answer()
        if found is not None:
            print(found[0])
            sys.exit(found[1])
    from tpuctl.cli.entry import run

    sys.exit(run())


if __name__ == "__main__":
    main()
