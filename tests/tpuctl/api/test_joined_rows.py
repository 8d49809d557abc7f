"""The rows of a job's attempts make one curve: what was done twice counts once, as it was done last."""

from __future__ import annotations

from tpuctl.api.joined_rows import joined


def rows(*places: tuple[int, int], tag: float = 0.0) -> list[dict[str, float]]:
    return [{"epoch": epoch, "step": step, "loss": tag} for epoch, step in places]


def test_a_later_attempt_replaces_what_it_repeats() -> None:
    first = rows((1, 1), (1, 2), (2, 1), (2, 2), tag=1.0)
    second = rows((2, 1), (2, 2), (3, 1), tag=2.0)
    assert joined([first, second]) == first[:2] + second
    assert joined([first, [], second]) == first[:2] + second


def test_an_epochs_own_row_comes_after_its_steps() -> None:
    first = [{"epoch": 1.0, "step": 2.0}, {"epoch": 1.0, "loss": 3.0}]
    assert joined([first, [{"epoch": 2.0, "step": 1.0}]]) == [*first, {"epoch": 2.0, "step": 1.0}]


def test_rows_without_a_place_are_all_kept() -> None:
    assert joined([[{"loss": 1.0}], [{"loss": 2.0}]]) == [{"loss": 1.0}, {"loss": 2.0}]
    assert joined([]) == []
