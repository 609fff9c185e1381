"""One list for each kind of thing that has a name: losses, priors, noises, penalties.

    name   name:number   name[...]        cross-entropy   gaussian:0.25   finite[-1:0.5;1:0.5]

Everything that shows or reads names (help texts, sweep files, the explorer, error messages) asks
the registry, so a new member is one file and one `add`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from polyceptron.errors import InvalidInput

T = TypeVar("T")


class Parsed(Generic[T]):
    """A field of a dataclass that may be given as anything that `read` turns into its object."""

    def __init__(self, read: Callable[[Any], T], default: Any) -> None:
        self.read, self.default = read, default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        found: T = self.default if instance is None else instance.__dict__[self.name]
        return found

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = self.read(value)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A name, one line about it, how it is made, and the words for its numbers.

    `example` holds numbers for menus and tests, `label` is its name in a legend, `read` reads what
    stands in brackets. A comparison that names no members takes the `plain` ones.
    """

    name: str
    summary: str
    make: Callable[..., T]
    parameters: tuple[str, ...] = ()
    example: tuple[float, ...] = ()
    label: str = ""
    read: Callable[[str], T] | None = None
    brackets: str = ""
    plain: bool = True

    @property
    def form(self) -> str:
        """How it is written: gaussian:VARIANCE, finite[value:probability;...]."""
        numbers = "".join(f":{word.upper()}" for word in self.parameters)
        return f"{self.name}[{self.brackets}]" if self.brackets else self.name + numbers


class Registry(Generic[T]):
    """The members of one kind, in the order in which they were added.

    >>> from polyceptron.problem.losses import LOSSES
    >>> LOSSES.names[:3]
    ('cross-entropy', 'square', 'max-margin')
    """

    def __init__(self, kind: str, base: type[T]) -> None:
        self.kind, self.base = kind, base
        self._entries: dict[str, Entry[T]] = {}
        self._single: dict[str, T] = {}  # members without numbers: one object each

    def add(self, *entries: Entry[T]) -> None:
        """Take new members in; a name is given once."""
        for entry in entries:
            if entry.name in self._entries:
                raise InvalidInput(f"there is a {self.kind} {entry.name!r} already")
            self._entries[entry.name] = entry

    def remove(self, name: str) -> None:
        """Forget a member."""
        self._entries.pop(name, None)
        self._single.pop(name, None)

    def _all(self) -> dict[str, Entry[T]]:
        """Every member by its name."""
        return self._entries

    @property
    def own(self) -> tuple[Entry[T], ...]:
        """The members that were added here, and not through another registry."""
        return tuple(self._entries.values())

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._all())

    @property
    def choices(self) -> tuple[str, ...]:
        """Every member as it is written, with the numbers of its example."""
        named = (entry for entry in self.entries if not entry.brackets)
        return tuple(":".join([e.name, *(f"{x:g}" for x in e.example)]) for e in named)

    def knows(self, text: Any) -> bool:
        """Whether a written name has the form of a member's."""
        return isinstance(text, str) and self.head(text) in self._all()

    @property
    def entries(self) -> tuple[Entry[T], ...]:
        """All members."""
        return tuple(self._all().values())

    @property
    def help(self) -> str:
        """How every member is written, for help texts and error messages."""
        return ", ".join(entry.form for entry in self._all().values())

    def label(self, name: str) -> str:
        """What a legend calls the member of this (written) name; the name itself if unknown."""
        entry = self._all().get(self.head(name))
        return name if entry is None or not entry.label else entry.label + name[len(entry.name) :]

    def examples(self) -> list[T]:
        """One object of every kind, as tests and menus use them."""
        return [e.make(*e.example) for e in self._all().values() if not e.brackets]

    def read(self, text: Any) -> T:
        """The object that a written name means, or an error message."""
        if isinstance(text, self.base):
            return text
        entry = self._all().get(self.head(text)) if isinstance(text, str) else None
        if entry is None:
            shown = repr(text) if len(repr(text)) < 200 else repr(text)[:200] + "…"
            raise InvalidInput(f"unknown {self.kind} {shown}: allowed are {self.help}")
        rest = text[len(entry.name) :]
        if entry.read is not None and rest:
            return entry.read(rest)
        numbers = rest.split(":")[1:]
        if len(numbers) != len(entry.parameters) or (rest and not rest.startswith(":")):
            raise InvalidInput(f"the {self.kind} {text!r} must be written {entry.form}")
        if entry.name in self._single:
            return self._single[entry.name]
        try:
            made = entry.make(*map(float, numbers))
        except InvalidInput:
            raise
        except (ValueError, OverflowError):
            raise InvalidInput(
                f"the {self.kind} {text!r} must be written {entry.form} with numbers"
            ) from None
        if not entry.parameters:
            self._single[entry.name] = made
        return made

    @staticmethod
    def head(text: str) -> str:
        """The name before any colon or bracket, with hyphens for underscores."""
        return text.split(":")[0].split("[")[0].replace("_", "-")
