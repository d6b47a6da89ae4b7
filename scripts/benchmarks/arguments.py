"""Kinds of options that several benchmarks have."""


def numbers(text: str) -> list[int]:
    """Returns the numbers of a list such as 1,2,3."""
    return [int(part) for part in text.split(",")]
