"""Groups of a stored release by the texts of their keys, and what a session remembers of one."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.explain.groups import Keys, shown, values_of
from pg_epsilon.query.arrays import items_of
from pg_epsilon.query.released import Named, Stored, named, text_of

ID = str(uuid.UUID(int=7))
DOMAINS: dict[str, list[str | None]] = {
    "city": ["north", "South", "o'east", None],
    "yes": ["f", "t"],
    "age": ["18", "19.5", "-3"],
}


def stored(order: list[int], own: bool = True, **more: Any) -> Stored:
    presentation = {
        "kind": "block",
        "call": "dp_group_by",
        "keys": [[name, domain] for name, domain in DOMAINS.items()],
        "order": order,
        **more,
    }
    return Stored(ID, own, "m", "now", [], presentation, None)


def test_every_group_has_its_number() -> None:
    """That of all combinations in declared order, whatever the order in which the keys are asked for."""
    keys = Keys.of(stored([0, 1, 2]))
    for number, group in enumerate(itertools.product(*DOMAINS.values())):
        assert keys.number(group) == number
        assert Keys.of(stored([2, 0, 1])).number((group[2], group[0], group[1])) == number
        assert Keys.of(stored([0, 1, 2]), (1, 2, 0)).number((group[1], group[2], group[0])) == number


def test_a_key_twice_has_one_value() -> None:
    keys = Keys.of(stored([1, 0, 1, 2]))
    assert keys.number(("t", None, "t", "18")) == Keys.of(stored([0, 1, 2])).number((None, "t", "18"))
    with pytest.raises(DPError, match="two values") as caught:
        keys.number(("t", None, "f", "18"))
    assert caught.value.sqlstate == "DP005"


@pytest.mark.parametrize("wrong", [(1, 2), (0, 1, 2, 3), (0, 0, 0), ()])
def test_an_order_of_something_else_is_that_of_who_paid(wrong: tuple[int, ...]) -> None:
    assert Keys.of(stored([0, 1, 2]), wrong).places == (0, 1, 2)


@pytest.mark.parametrize(
    ("group", "same"),
    [
        ("{north,true,18.0}", ("north", "t", "18")),
        ('{"o\'east",OFF,+19.50}', ("o'east", "f", "19.5")),
        ("{NULL,0,-3e0}", (None, "f", "-3")),
    ],
)
def test_other_texts_of_the_same_value(group: str, same: tuple[str | None, ...]) -> None:
    """Booleans and numbers as people write them, and an array's text where a text was expected."""
    keys = Keys.of(stored([0, 1, 2]))
    assert keys.number((group,)) == keys.number(same)


@pytest.mark.parametrize(
    ("group", "sqlstate", "words", "hint"),
    [
        (("nort", "t", "18"), "DP005", "city has no group 'nort'", "Did you mean 'north'"),
        (("south", "t", "18"), "DP005", "city has no group 'south'", "'South'"),
        (("oeast", "t", "18"), "DP005", "city has no group", "'o''east'"),
        (("zzz", "t", "18"), "DP005", "city has no group", "Its first one is 'north'"),
        (("north", None, "18"), "DP005", "yes has no NULL group", "Its first one is 'f'"),
        (("north", "maybe", "18"), "DP005", "yes has no group", "'f'"),
        (("north", "t", "NaN"), "DP005", "age has no group", "'18'"),
        (("north", "t"), "DP003", "has 3 keys, city, yes, age", "ARRAY['north', 'f', '18']"),
        (("{north,t",), "DP003", "has 3 keys", "ARRAY["),
    ],
)
def test_groups_that_there_are_not(group: tuple[str | None, ...], sqlstate: str, words: str, hint: str) -> None:
    with pytest.raises(DPError) as caught:
        Keys.of(stored([0, 1, 2])).number(group)
    assert caught.value.sqlstate == sqlstate
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")


def test_who_was_served_it_sees_no_names_of_who_paid() -> None:
    with pytest.raises(DPError, match=r"^k2 has no group 'nort'") as caught:
        Keys.of(stored([1, 0, 2], own=False)).number(("t", "nort", "18"))
    assert "city" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [({"keys": []}, "has no groups"), ({"kind": "workload", "call": "dp_sum_workload"}, "is of dp_sum_workload")],
)
def test_releases_that_have_no_groups(more: dict[str, Any], words: str) -> None:
    with pytest.raises(DPError, match=words) as caught:
        Keys.of(stored([], **more))
    assert caught.value.sqlstate == "DP003"


def test_what_a_request_names() -> None:
    assert values_of(None, "groups") == (None,)
    assert values_of(["a", None], "groups") == ("a", None)
    assert shown(("a", None)) == "a, NULL"
    for wrong in (7, [], [["a"]], {"a": 1}):
        with pytest.raises(DPError):
            values_of(wrong, "groups")


def test_what_a_session_remembers() -> None:
    """The inverse of what it is given, and nothing else is believed."""
    assert named({"of": ID}) == Named(ID)
    assert named({"of": text_of(ID, (1, 0), (0, 2, 1))}) == Named(ID, (1, 0), (0, 2, 1))
    assert named({"of": f"{ID} 1,0"}) == Named(ID, (1, 0))
    for wrong in ("", "x", f"{ID} ", f"{ID} a 0", f"{ID} 0 0 0", f"{ID}  0", [ID], 7):
        with pytest.raises(DPError) as caught:
            named({"of": wrong})
        assert caught.value.sqlstate == "DP003"
    with pytest.raises(DPError, match="this session was given no grouped answer"):
        named({"of": None})


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{ a , b }", ["a", "b"]),
        ('{"a,b","\\"",NULL,"NULL"}', ["a,b", '"', None, "NULL"]),
        ("{a", None),
        ("{", None),
        ("a", None),
        ('{"a}', None),
        ("{{a}}", None),
    ],
)
def test_texts_of_arrays(text: str, items: list[str | None] | None) -> None:
    assert items_of(text) == items
