"""Streams that are closed, or that can't show every letter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def shell(line, **environment):
    variables = os.environ | environment
    command = ["/bin/sh", "-c", f'"$0" -m tpuctl {line}', sys.executable]
    return subprocess.run(command, env=variables, capture_output=True, timeout=30, check=False)


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("line", ["list jobs", "attach demo", "describe slice demo"])
def test_closed_streams_are_no_error(plane, line, closed):
    plane.add_node("demo")
    plane.add_job("train-1")
    result = shell(f"{line} {closed}")
    assert (result.returncode, result.stderr) == (0, b"")


def test_letters_that_a_stream_cannot_show_are_replaced(plane):
    plane.add_node("demo")
    result = shell("describe slice demo", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"demo" in result.stdout
