"""Algorithm 2 round by round: the same integers as at once, and what is left over of a release that was stopped."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from mwem_cases import Given

from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.release.ask import Family, Options
from pg_epsilon.release.iterated import HEAD, Iterated, is_stopped, of_family, rows, told
from pg_epsilon.release.sets import Masks
from pg_epsilon.release.stepped import Stepped

F = Fraction
RECORDS = "0 0 300 0;1 0 100 0"
PICKS = [1, 0, 0]


def masks(*each: str) -> Masks:
    different = tuple(dict.fromkeys(each))
    return Masks(different, tuple(different.index(one) for one in each))


def asked(rounds: int | None = 3) -> Family:
    axes: Any = [SimpleNamespace(size=2, name="a", key=SimpleNamespace(domain=["0", "1"]))]
    own: Any = None
    grid = tuple((str(number),) for number in range(3))
    return Family("f", "", own, tuple(axes), (masks("10", "01", "11"),), grid, True, "alg2", Options(rounds=rounds))


def release(epsilon: Fraction = Fraction(4), rounds: int | None = 3) -> Iterated:
    return of_family(asked(rounds), None, epsilon, 1, 1000)


def noise(rounds: int = 3) -> Any:
    return Given([2.0, *[1.5] * rounds, 0.25], PICKS[:rounds])


def drawn(how: Stepped, given: Any, most: int = 99) -> tuple[list[list[int]], Any]:
    """The steps, as many as there are or `most`, and the work that drew them."""
    work, found = how.begin([RECORDS]), list[list[int]]()
    while len(found) < min(most, how.steps(found)):
        found.append(work.step(found, given, "x"))
    return found, work


def test_steps_are_the_release_at_once() -> None:
    how = release()
    ((at_once),) = how.release([[RECORDS]], noise(), "x")
    found, work = drawn(Stepped(how), given := noise())
    assert len(found) == 2 + 3 and [len(one) for one in found] == [1, 2, 2, 2, 1]
    assert not (given.shifts or given.picks)
    assert work.whole(found) == Stepped(how).whole(found) == at_once
    assert [one["label"] for one in given.asked] == [one["label"] for one in _asked(how)]


def _asked(how: Iterated) -> list[dict[str, Any]]:
    given = noise()
    how.release([[RECORDS]], given, "x")
    return list(given.asked)


def test_another_backend_goes_on_where_it_stopped() -> None:
    how = Stepped(release())
    given = noise()
    first, _ = drawn(how, given, most=3)
    other = how.begin([RECORDS])
    while len(first) < how.steps(first):
        first.append(other.step(first, given, "x"))
    whole, _ = drawn(how, noise())
    assert first == whole and other.whole(first) == how.whole(whole)


def test_two_backends_take_turns() -> None:
    how = Stepped(release())
    given, works, found = noise(), [how.begin([RECORDS]), how.begin([RECORDS])], list[list[int]]()
    while len(found) < how.steps(found):
        found.append(works[len(found) % 2].step(found, given, "x"))
    assert found == drawn(how, noise())[0]
    assert works[0].whole(found) == works[1].whole(found) == how.whole(found)


def test_the_number_of_steps_is_bounded_before_and_known_after_the_first() -> None:
    how = Stepped(release(rounds=None))
    most = how.steps([])
    found, _ = drawn(how, noise(3), most=1)
    assert 3 <= how.steps(found) <= most


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_a_release_that_was_stopped_has_no_bars(done: int) -> None:
    how = release()
    found, work = drawn(Stepped(how), noise(), most=1 + done)
    raw = work.whole(found)
    assert raw == Stepped(how).whole(found)
    assert raw[:HEAD] == [402 << LATTICE, ~done, 0] and is_stopped(raw)
    shown = rows(raw, how, asked(), F(1, 20))
    assert [one[1:] for one in shown] == [[None, None, None, True]] * 3
    assert shown[0][0] + shown[1][0] == pytest.approx(shown[2][0])
    facts, words = told(how, asked(), raw)
    assert (facts["rounds"], facts["stopped"]) == (done, 3) and "alpha" not in facts
    assert f"stopped after {done} of 3 rounds" in words and "no answer has a bar" in words


def test_what_is_left_over_is_what_the_rounds_would_have_cost() -> None:
    """T rounds cost 0.88 epsilon; nothing of the number of rows, nor of the largest error, comes back."""
    how = Stepped(release())
    whole, _ = drawn(how, noise())
    assert how.left_over(how.whole(whole)) == ()
    left = [how.left_over(how.whole(whole[: 1 + done])) for done in range(4)]
    found = [sum((one.pure()[0] for one in each), Decimal(0)) for each in left]
    for back, rounds in zip(found, (3, 2, 1), strict=False):
        exact = F("3.52") * rounds / 3
        assert 0 < exact - F(back) < F(1, 10**12)
    assert left[3] == () and [one.kind for each in left[:3] for one in each] == ["rounds"] * 3


def test_no_more_comes_back_than_was_charged_and_not_spent() -> None:
    """Whatever T is: what stays is at least what the rounds that were drawn cost."""
    for rounds in range(1, 4):
        how = Stepped(release(F(1), rounds))
        own = how.measure.algorithm
        found, _ = drawn(how, noise(rounds))
        for done in range(rounds + 1):
            back = sum((one.pure()[0] for one in how.left_over(how.whole(found[: 1 + done]))), Decimal(0))
            assert own.plan.shares.rounds - F(back) >= done * own.setting(rounds).eps0


def test_the_form_tells_what_integers_mean() -> None:
    same = [Stepped(release()).form for _ in range(2)]
    others = [Stepped(one).form for one in (release(F(3)), of_family(asked(), None, F(4), 2, 1000))]
    assert same[0] == same[1] and len({same[0], *others}) == 3
