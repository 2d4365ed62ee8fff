"""Dataclasses whose methods are shared: they behave as those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable

import pytest

from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Quick:
    number: int = column("A number.")
    names: list[str] = column("Names.", default_factory=list)
    hidden: int = dataclasses.field(default=0, repr=False, compare=False)


@dataclasses.dataclass(slots=True)
class Usual:
    number: int = column("A number.")
    names: list[str] = column("Names.", default_factory=list)
    hidden: int = dataclasses.field(default=0, repr=False, compare=False)


@quick_dataclass(frozen=True)
class Key:
    name: str
    port: int = 443


@quick_dataclass
class OtherKey:
    name: str
    port: int = 443


@quick_dataclass
class Said:
    number: int

    def __repr__(self) -> str:
        return "something else"


def test_it_says_what_the_usual_one_says() -> None:
    assert repr(Quick(1, ["a"], 7)) == repr(Usual(1, ["a"], 7)).replace("Usual", "Quick")
    assert repr(Said(1)) == "something else"


def test_it_has_slots_and_the_usual_functions_work() -> None:
    one = Quick(1)
    with pytest.raises(AttributeError):
        one.nothing = 1  # type: ignore[attr-defined]
    assert [field.name for field in dataclasses.fields(one)] == ["number", "names", "hidden"]
    assert dataclasses.replace(one, number=2) == Quick(2)
    assert dataclasses.asdict(one) == {"number": 1, "names": [], "hidden": 0}
    assert pickle.loads(pickle.dumps(Key("a"))) == Key("a")


@quick_dataclass
class Counted:
    values: list[int]
    more: list[int] = dataclasses.field(default_factory=list)
    count: int = dataclasses.field(init=False)
    known: dict[int, int] = dataclasses.field(default_factory=dict, init=False)
    limit: int = dataclasses.field(default=3, init=False)

    def __post_init__(self) -> None:
        self.count = len(self.values)


@quick_dataclass(frozen=True)
class Lists:
    names: list[str] = dataclasses.field(default_factory=list)


@quick_dataclass
class Nothing:
    pass


def test_the_first_one_is_made_as_all_others_are() -> None:
    for _ in range(2):
        one = Counted([1, 2])
        assert (one.values, one.more, one.count, one.known, one.limit) == ([1, 2], [], 2, {}, 3)
        assert Lists().names is not Lists().names
        assert Lists(["a"]).names == ["a"]
        assert Nothing() == Nothing()


@pytest.mark.parametrize(
    ("kind", "values", "named"),
    [(Counted, (), {}), (Counted, ([1],), {"count": 2}), (Key, ("a", 2, 3), {})],
)
def test_wrong_arguments_are_refused_from_the_first_on(
    kind: Callable[..., object], values: tuple[object, ...], named: dict[str, object]
) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        kind(*values, **named)


def test_a_frozen_one_can_be_copied() -> None:
    lists = Lists(["a"])
    assert copy.deepcopy(lists) == lists
    assert copy.deepcopy(lists).names is not lists.names
    with pytest.raises(dataclasses.FrozenInstanceError):
        del lists.names


def test_values_compare_but_hidden_ones_and_other_classes() -> None:
    assert Quick(1, ["a"], 7) == Quick(1, ["a"], 8)
    assert Quick(1, ["a"]) != Quick(1, ["b"])
    assert Key("a") != OtherKey("a")  # type: ignore[comparison-overlap]
    assert Quick(1) != (1, [], 0)  # type: ignore[comparison-overlap]


def test_only_frozen_ones_are_keys() -> None:
    assert {Key("a"): 1}[Key("a", 443)] == 1
    assert len({Key("a"), Key("a", 80)}) == 2
    with pytest.raises(TypeError):
        hash(Quick(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Key("a").port = 80  # type: ignore[misc]
