"""Dataclasses that are made quickly: the program has some two hundred, and makes all at its start.

`dataclasses` writes the source of each method of each class and compiles it. What a class says
of itself, and how two of them compare, can be shared instead: that takes nearly half of the time
away, a tenth of what a small capture takes as a whole.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar, dataclass_transform, overload

from capture_analyzer.model.column import column

T = TypeVar("T")

_NAMES: Final[dict[type, tuple[str, ...]]] = {}
"""Fields that are compared, of each class of which two were."""


@overload
def quick_dataclass(cls: type[T], /) -> type[T]: ...


@overload
def quick_dataclass(*, frozen: bool = False) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(column, dataclasses.field))
def quick_dataclass(
    cls: type[T] | None = None, /, *, frozen: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a dataclass with slots, as ``dataclasses.dataclass(slots=True)`` does.

    Args:
        cls: the class.
        frozen: its values don't change, so that it can be a key.
    """
    if cls is None:
        return functools.partial(_made, frozen=frozen)
    return _made(cls, frozen=frozen)


def _made(cls: type[T], *, frozen: bool) -> type[T]:
    shared: dict[str, Any] = {
        "__repr__": _repr,
        "__eq__": _eq,
        "__hash__": _hash if frozen else None,
    }
    for name, method in shared.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    return dataclasses.dataclass(frozen=frozen, slots=True, repr=False, eq=False)(cls)


def _repr(self: Any) -> str:
    values = (
        f"{field.name}={getattr(self, field.name)!r}"
        for field in dataclasses.fields(self)
        if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(values)})"


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _compared(self) == _compared(other)


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _compared(one: Any) -> tuple[object, ...]:
    """The values by which two of a class compare."""
    names = _NAMES.get(type(one))
    if names is None:
        names = tuple(field.name for field in dataclasses.fields(one) if field.compare)
        _NAMES[type(one)] = names
    return tuple(getattr(one, name) for name in names)
