"""Aligned text of two language versions: manuals with the same structure, message catalogues."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polib  # type: ignore[import-untyped]

from opendocs.markup import (
    HOLE,
    Block,
    declared_entities,
    html_blocks,
    inline_text,
    tidy,
    xml_blocks,
)

_NO_DOCUMENT = re.compile(
    r"/(search|genindex|py-modindex|index-toc|go\d+|legal|credits|authors|developers-reference)\.|"
    r"big-page|/live-manual\.de|[fl]?gpl\b|fdl|_toc\.|-index\.|snippets/",
    re.IGNORECASE,
)
_MESSAGE_TAGS = re.compile(r"</?(\w[\w-]*)[^<>]*>")
_INLINE_TAGS = """
    a b i u em strong tt code br p qt nobr span small big bold italic header ref jump img ul li para
    emphasis title note warning filename application resource interface shortcut
"""
_GAME_MARKUP = re.compile(r"</?(?:bold|italic|header|ref|jump)>|(?:text|dst)='[^']*'")
_BREAKS = re.compile(r"</?(?:p|br|li|ul|para|title|note|warning|header)\b", re.IGNORECASE)
_CONTEXT = re.compile(r"^\?[a-z_]+:|^[a-z_ ':,+]{2,60}\^")
_PATH_NOISE = """
    usr share lib doc help games locale de de-DE html HTML text LC_MESSAGES kde Documentation
    program resource translations
"""
_PARAGRAPH_END = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class RawPair:
    """Text of both languages as aligned, before any cleaning.

    Attributes:
        document: Name of the manual page, help topic or catalogue.
        english: Text, with `HOLE` where something is missing.
        german: Its translation.
        is_message: It comes from a message catalogue, where labels are many.
    """

    document: str
    english: str
    german: str
    is_message: bool = False


def aligned_texts(files: Mapping[str, bytes]) -> Iterator[RawPair]:
    """Yields the pairs of all files that exist in both languages, in the order of their names.

    Args:
        files: Content by path; names and folders tell the language.
    """
    entities = _shared_entities(files)
    for path in sorted(files):
        if path.endswith(".mo"):
            yield from catalogue_texts(files[path], document=_document(path))
            continue
        english = english_path(path, files)
        if english is None or _NO_DOCUMENT.search(path):
            continue
        sides = [
            _blocks(name, content=_text(files[name]), entities=entities[language])
            for name, language in ((english, "en"), (path, "de"))
        ]
        for first, second in align(sides[0], sides[1]):
            if first.text and second.text:
                yield RawPair(_document(path), first.text, second.text)


def english_path(path: str, files: Mapping[str, bytes]) -> str | None:
    """Returns the path of the English version of a German file; None if there is none."""
    candidates = [path]
    for german, english in (
        ("/de/", ("/en/", "/C/", "/en-US/", "/")),
        ("/de-DE/", ("/en-US/",)),
        ("-de/", ("/",)),
        (".de.", (".en.", ".")),
        (".de.html/", (".html/",)),
    ):
        candidates += [
            name.replace(german, replacement)
            for name in candidates
            if german in name
            for replacement in english
        ]
    return next((name for name in candidates if name != path and name in files), None)


def align(english: Sequence[Block], german: Sequence[Block]) -> list[tuple[Block, Block]]:
    """Pairs blocks: the whole file where its structure agrees, else the sections where it does.

    A section is what follows an id that both files have.
    """
    if _same_shape(english, german):
        return list(zip(english, german, strict=True))
    sections: list[dict[str, list[Block]]] = [{}, {}]
    for groups, blocks in zip(sections, (english, german), strict=True):
        for block in blocks:
            groups.setdefault(block.section, []).append(block)
    return [
        pair
        for section, blocks in sections[0].items()
        if section and _same_shape(blocks, sections[1].get(section, []))
        for pair in zip(blocks, sections[1][section], strict=True)
    ]


def catalogue_texts(content: bytes, *, document: str) -> Iterator[RawPair]:
    """Yields the messages of a compiled catalogue (.mo), paragraph by paragraph where both agree.

    Messages with plural forms and the catalogue's header are left out.
    """
    for entry in sorted(polib.mofile(content), key=lambda entry: str(entry.msgid)):
        if entry.msgid_plural or not entry.msgstr or "translator" in entry.msgid.lower()[:24]:
            continue
        sides = [_PARAGRAPH_END.split(text.strip()) for text in (entry.msgid, entry.msgstr)]
        if len(sides[0]) != len(sides[1]):
            continue
        for english, german in zip(*sides, strict=True):
            english, german = _without_accelerators(english, german)
            yield RawPair(document, _message(english), _message(german), is_message=True)


def _same_shape(english: Sequence[Block], german: Sequence[Block]) -> bool:
    """Says whether two sequences have the same elements."""
    return [block.shape for block in english] == [block.shape for block in german]


def _message(text: str) -> str:
    """Returns the plain text of a message; a hole for tags that are no formatting."""
    text = _GAME_MARKUP.sub("", _CONTEXT.sub("", text))
    if {tag.lower() for tag in _MESSAGE_TAGS.findall(text)} - set(_INLINE_TAGS.split()):
        return HOLE
    if "<" in _MESSAGE_TAGS.sub("", text):
        return tidy(text)
    return inline_text(_BREAKS.sub(r" \g<0>", text.replace("\\n", "\n")))


def _without_accelerators(english: str, german: str) -> tuple[str, str]:
    """Removes the mark of the letter that a key press selects; words on both sides keep theirs."""
    shared = set(english.split()) & set(german.split())
    for mark in "_&~":
        marked = re.compile(rf"{mark}(?=\w)(?!\w+;)")
        numbers = [len(marked.findall(side)) for side in (english, german)]
        if max(numbers) == 1 and not any(mark in word for word in shared):
            return marked.sub("", english), marked.sub("", german)
    return english, german


def _blocks(path: str, *, content: str, entities: Mapping[str, str]) -> list[Block]:
    """Returns the blocks of a file by the format that its name tells."""
    return html_blocks(content) if ".html" in path[-8:] else xml_blocks(content, entities)


def _text(content: bytes) -> str:
    """Decodes a file, leniently: single broken characters are found later."""
    return content.decode("utf-8", errors="replace")


def _shared_entities(files: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """Returns by language what the files named `*.entities` declare."""
    result: dict[str, dict[str, str]] = {}
    for language in ("en", "de"):
        result[language] = {}
        for path in sorted(files):
            if re.search(rf"/({language}|entities)/[\w.-]+\.entities$", path):
                result[language] |= declared_entities(_text(files[path]))
    return result


def _document(path: str) -> str:
    """Returns a short name of a document."""
    name = re.sub(r"\.(html|docbook|page|xml|mo)$|\.de(?=\.|$)", "", path.removeprefix("./"))
    parts = [part for part in name.split("/") if part not in _PATH_NOISE.split()]
    return "/".join(parts)
