"""Dataclasses that are made quickly: the program has some two hundred, and makes all at its start.

`dataclasses` writes the source of each method of each class and compiles it. What a class says
of itself, how two of them compare, and that a frozen one can't be changed, is shared instead; its
`__init__` is written when the first of the class is made, which for most never happens. That
takes four fifths of the time away, a sixth of what a small capture takes as a whole.
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
    if frozen:
        shared["__setattr__"] = shared["__delattr__"] = _refuse
        shared["__getstate__"], shared["__setstate__"] = _state, _set_state
    for name, method in shared.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else its arguments are worked out, to stand there
    made = dataclasses.dataclass(init=False, slots=True, repr=False, eq=False)(cls)
    if "__init__" not in vars(cls):
        made.__init__ = _first_init(made, frozen=frozen)  # type: ignore[method-assign]
    return made


def _first_init(cls: type[T], *, frozen: bool) -> Callable[..., None]:
    """What makes the first one of a class: it writes the method that makes all others."""

    def __init__(self: T, *values: Any, **named: Any) -> None:  # noqa: N807 - its name in errors
        cls.__init__ = written = _written_init(cls, frozen=frozen)  # type: ignore[method-assign]
        written(self, *values, **named)

    return __init__


def _written_init(cls: type, *, frozen: bool) -> Callable[..., None]:
    """The `__init__` that the standard library would write for a class."""
    known: dict[str, Any] = {"_none": dataclasses.MISSING, "_put": object.__setattr__}
    parameters, lines = ["self"], []
    for field in dataclasses.fields(cls):
        name = value = field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}()"
            if field.init:
                parameters.append(f"{name}=_none")
                value = f"{value} if {name} is _none else {name}"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            if field.init:
                parameters.append(f"{name}=_default_{name}")
            else:
                value = f"_default_{name}"
        elif field.init:
            parameters.append(name)
        else:
            continue  # __post_init__ gives it a value
        lines.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n {body}", known)  # noqa: S102 - no outside text
    written: Callable[..., None] = known["__init__"]
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    return written


def _refuse(self: Any, name: str, value: object = None) -> None:
    raise dataclasses.FrozenInstanceError(f"{type(self).__qualname__}.{name} can't be changed")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


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
