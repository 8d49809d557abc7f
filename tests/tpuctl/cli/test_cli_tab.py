"""What Tab offers on the line of `run job`."""

from __future__ import annotations

import pytest

from tpuctl.cli import tab


def values(words, last):
    return [offer.value for offer in tab.offers(words.split(), last)]


@pytest.mark.parametrize("last", ["", "-", "--s"])
@pytest.mark.parametrize("words", ["run job train.py", "run job --type v3-8 train.py", "run job train.py --depth 3"])
def test_after_a_file_nothing_of_tpuctl_s_own_is_offered(home, words, last):
    assert values(words, last) == []


@pytest.mark.parametrize("words", ["run job", "run job mnist", "run job mnist --epochs 3", "run job --type v3-8"])
def test_before_it_and_after_a_model_options_are_offered(home, words):
    assert values(words, "--sl") == ["--slice", "--slices"]
