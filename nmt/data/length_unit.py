"""What a length is counted in: words, or characters where words are not set apart by spaces."""

from __future__ import annotations

from typing import Literal

LengthUnit = Literal["word", "character"]

_UNITS: tuple[LengthUnit, ...] = ("word", "character")

_LANGUAGES_WITHOUT_SPACES = ("zh", "zho", "chi", "cmn", "yue", "ja", "jpn")


def default_unit(language: str) -> LengthUnit:
    """Returns the unit lengths are counted in for a language code such as `de` or `zh-cn`."""
    base = language.replace("_", "-").split("-")[0].lower()
    return "character" if base in _LANGUAGES_WITHOUT_SPACES else "word"


def check_unit(unit: str) -> LengthUnit:
    """Returns the unit if there is one of that name.

    Raises:
        ValueError: Another name.
    """
    for known in _UNITS:
        if unit == known:
            return known
    raise ValueError(
        f"length_unit is {unit!r}, but lengths are counted in {' or '.join(_UNITS)}; "
        "set data.length_unit to one of these or to null."
    )


def count_units(text: str, unit: LengthUnit) -> int:
    """Counts white-space tokens (punctuation attached), or characters that are not white space."""
    words = text.split()
    return len(words) if unit == "word" else sum(map(len, words))
