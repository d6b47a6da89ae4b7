"""Splits English and German text into sentences, by simple rules."""

import re

_END = re.compile(r"([.!?…][\"“”»«’')\]]*)\s+(?=[\"“„»«‚(\[]*[A-ZÄÖÜ0-9])")
_ABBREVIATIONS = """
    z b d h u a o s v g i e eg ie z.b d.h u.a o.ä i.d.r etc usw bzw bspw vgl ca nr no abb fig vs cf
    ggf evtl dr mr mrs st inkl max min ggfs allg engl dt sog jan feb aug sept okt oct nov dez dec bd
    vol resp approx incl usf vers u.ä z.t i.e e.g u.u v.a s.o s.u o.g p.s a.k.a p pp sec kap chap ch
    ver
"""


def sentences(text: str) -> list[str]:
    """Returns the sentences of a text.

    A full stop after an abbreviation, a single letter or a number (German ordinals) ends none.
    """
    found, start = [], 0
    for match in _END.finditer(text):
        if match[1].startswith(".") and _goes_on(text[start : match.start()]):
            continue
        found.append(text[start : match.end(1)].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _goes_on(text: str) -> bool:
    """Says whether a full stop after this text belongs to its last word."""
    word = text.rsplit(" ", 1)[-1].strip("(\"„“»«['").lower()
    return (
        word.rstrip(".") in _ABBREVIATIONS.split()
        or re.fullmatch(r"\d{1,4}|[a-z]", word) is not None
        or word.endswith("..")
    )
