"""One list for each kind of thing that has a name: losses, priors, noises, penalties.

    name   name:number   name[...]        cross-entropy   gaussian:0.25   finite[-1:0.5;1:0.5]

Everything that shows or reads names (help texts, sweep files, the explorer, error messages) asks
the registry, so a new member is one file and one `add`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from polyceptron.errors import InvalidInput

T = TypeVar("T")
LONGEST_QUOTE = 200  # characters of a wrong input that an error message repeats


class Parsed(Generic[T]):
    """A field of a dataclass that may be given as anything that `read` turns into its object."""

    def __init__(self, read: Callable[[Any], T], default: Any) -> None:
        self.read = read
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:  # dataclasses ask the class for the default of the field
            return cast(T, self.default)
        return cast(T, instance.__dict__[self.name])

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = self.read(value)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One member of a registry: its name, how it is made, and what is said of it.

    Attributes
    ----------
    name : str
        As it is written before any number.
    summary : str
        One line about it.
    make : callable
        Makes the member from its numbers.
    parameters : tuple of str
        Words for these numbers.
    example : tuple of float
        Numbers for menus and tests.
    label : str
        Its name in a legend, if not `name`.
    read : callable, optional
        Makes the member from what stands behind its name, brackets included.
    brackets : str
        What stands in the brackets, in words.
    written : str
        An example of how it is written, where words for its numbers would not explain it.
    plain : bool
        Whether a comparison that names no members takes it.
    """

    name: str
    summary: str
    make: Callable[..., T]
    parameters: tuple[str, ...] = ()
    example: tuple[float, ...] = ()
    label: str = ""
    read: Callable[[str], T] | None = None
    brackets: str = ""
    written: str = ""
    plain: bool = True

    @property
    def form(self) -> str:
        """The way it is written: gaussian:VARIANCE, finite[value:probability;...]."""
        if self.written:
            return self.written
        if self.brackets:
            return f"{self.name}[{self.brackets}]"
        return self.name + "".join(f":{word.upper()}" for word in self.parameters)


class Registry(Generic[T]):
    """The members of one kind, in the order in which they were added.

    >>> from polyceptron.problem.losses import LOSSES
    >>> LOSSES.names[:3]
    ('cross-entropy', 'square', 'max-margin')
    """

    def __init__(self, kind: str, base: type) -> None:
        self.kind = kind
        self.base = base
        self._entries: dict[str, Entry[T]] = {}
        self._single: dict[str, T] = {}  # members without numbers: one object each

    def add(self, *entries: Entry[T]) -> None:
        """Add members; raise `InvalidInput` if a name is there already."""
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
        return tuple(":".join([entry.name, *map("{:g}".format, entry.example)]) for entry in named)

    def knows(self, text: Any) -> bool:
        """Return True if a written name has the form of a member's."""
        return isinstance(text, str) and self.head(text) in self._all()

    @property
    def entries(self) -> tuple[Entry[T], ...]:
        """All members."""
        return tuple(self._all().values())

    @property
    def help(self) -> str:
        """The way every member is written, for help texts and error messages."""
        return ", ".join(entry.form for entry in self._all().values())

    def label(self, name: str) -> str:
        """Return what a legend calls the member of this (written) name; the name if unknown."""
        entry = self._all().get(self.head(name))
        if entry is None or not entry.label:
            return name
        return entry.label + name[len(entry.name) :]

    def examples(self) -> list[T]:
        """One object of every kind, as tests and menus use them."""
        return [e.make(*e.example) for e in self._all().values() if not e.brackets]

    def read(self, text: Any) -> T:
        """Return the object that a written name means, or `text` itself if it is a member.

        Raises
        ------
        InvalidInput
            If no member is written like this; the message says how all are.
        """
        if isinstance(text, self.base):
            return cast(T, text)
        entry = self._entry_of(text)
        rest = text[len(entry.name) :]
        if entry.read is not None and rest:
            return entry.read(rest)
        numbers = rest.split(":")[1:]
        if len(numbers) != len(entry.parameters) or (rest and not rest.startswith(":")):
            raise InvalidInput(f"the {self.kind} {text!r} must be written {entry.form}")
        if entry.parameters:
            return self._made(entry, text, numbers)
        if entry.name not in self._single:
            self._single[entry.name] = self._made(entry, text, numbers)
        return self._single[entry.name]

    def _entry_of(self, text: Any) -> Entry[T]:
        """Return the entry of a written name; raise `InvalidInput` if there is none."""
        if isinstance(text, str) and self.head(text) in self._all():
            return self._all()[self.head(text)]
        shown = repr(text)
        if len(shown) >= LONGEST_QUOTE:
            shown = shown[:LONGEST_QUOTE] + "…"
        raise InvalidInput(f"unknown {self.kind} {shown}: allowed are {self.help}")

    def _made(self, entry: Entry[T], text: str, numbers: list[str]) -> T:
        """Return the member of an entry with these numbers, as written."""
        try:
            return entry.make(*map(float, numbers))
        except InvalidInput:
            raise
        except (ValueError, OverflowError):
            raise InvalidInput(
                f"the {self.kind} {text!r} must be written {entry.form} with numbers"
            ) from None

    @staticmethod
    def head(text: str) -> str:
        """The name before any colon or bracket, with hyphens for underscores."""
        return text.split(":")[0].split("[")[0].replace("_", "-")
