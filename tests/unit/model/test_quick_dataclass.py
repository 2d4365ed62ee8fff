"""Dataclasses whose methods are shared: they behave as those of the standard library do."""

from __future__ import annotations

import dataclasses
import pickle

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
