"""What the environment says of a process's part in its job."""

from __future__ import annotations

import pytest

from backend.driver.membership import Membership, membership
from backend.errors import InvalidArgument


def test_a_process_is_alone_where_nothing_is_said() -> None:
    assert membership(environment={}) == Membership(0, 1, 10.0, 120.0)


def test_the_environment_says_which_of_how_many_and_how_patient() -> None:
    told = {"TPUCTL_PROCESS": "2/4", "TPUCTL_LAUNCH_NOTICE": "0.5", "TPUCTL_LAUNCH_TIMEOUT": "30"}
    assert membership(environment=told) == Membership(2, 4, 0.5, 30.0)


def test_jax_distributed_says_it_where_the_environment_does_not() -> None:
    assert membership(1, 2, {}).process == 1
    assert membership(1, 2, {"TPUCTL_PROCESS": "3/4"}).process == 3


@pytest.mark.parametrize("text", ["4/4", "0/0", "-1/2", "1", "one/two", "1/2/3"])
def test_an_impossible_process_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"TPUCTL_PROCESS={text} is no process of a job; it reads I/P"):
        membership(environment={"TPUCTL_PROCESS": text})


@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan"])
def test_an_impossible_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"TPUCTL_LAUNCH_TIMEOUT={text} is no time"):
        membership(environment={"TPUCTL_LAUNCH_TIMEOUT": text})
