"""DocBook, Mallard and HTML to plain text blocks, in document order.

A paragraph that plain text cannot show whole (an icon, a reference whose text a stylesheet would
make, an unknown entity) keeps the character `HOLE` in that place, so that it can be dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from html.entities import html5
from typing import Any

from lxml import etree  # type: ignore[import-untyped]
from lxml import html as lxml_html

HOLE = "\ufffc"


def _names(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


_BLOCKS = _names(
    "para simpara title subtitle term entry refpurpose seg p li h1 h2 h3 h4 h5 h6 dt dd td th "
    "caption figcaption"
)
_CONTAINERS = _names(
    "itemizedlist orderedlist variablelist simplelist segmentedlist procedure table informaltable "
    "ul ol dl note warning tip caution important example informalexample figure div blockquote "
    "section"
)
_NOT_TEXT = _names(
    "programlisting screen literallayout pre script style synopsis cmdsynopsis funcsynopsis "
    "mediaobject screenshot bookinfo articleinfo info head nav header footer aside indexterm "
    "footnote"
)
_NAVIGATION = _names(
    "docnav navheader navfooter navigation revhistory sphinxsidebar related toc footnotes node "
    "contents table-of-contents languages footer embedded"
)
_SKIPPED = _names("indexterm footnote anchor remark comment shortcut script style")
_ENDS_TEXT = (_BLOCKS | _CONTAINERS | _NOT_TEXT) - _SKIPPED
_SKIPPED_CLASSES = _names("footnote headerlink noteicon MAC")
_HOLES = _names(
    "xref footnoteref biblioref olink inlinemediaobject inlinegraphic graphic mediaobject media "
    "img image svg programlisting screen literallayout synopsis cmdsynopsis pre table select "
    "textarea"
)
_LINKS = _names("a link ulink")
_JOINED = {"keycombo": "+", "keyseq": "+", "menuchoice": " > ", "guiseq": " > "}
_WRAPPED = {"quote": ('"', '"'), "q": ('"', '"'), "manvolnum": ("(", ")"), "br": (" ", "")}
_GENERATED_ID = re.compile(r"(idm?|id-|ftn|idp|ch\d+s|index-)?[\d.]*$|(idm|ftn|idp|index-)\S*\d")
_ENTITY = re.compile(r"&([A-Za-z][\w.-]*);")
_DECLARATION = re.compile(r"""<!ENTITY\s+([\w.-]+)\s+(?:"([^"]*)"|'([^']*)')\s*>""")
_DOCTYPE = re.compile(r"<!DOCTYPE.*?(\[.*?\]\s*)?>", re.DOTALL)
_XML_ENTITIES = {"lt", "gt", "amp", "quot", "apos"}
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]")


@dataclass(frozen=True)
class Block:
    """A paragraph, heading, list item or table cell.

    Attributes:
        shape: Name of the element and its parent; aligned files have the same sequence of these.
        section: The last id before the text, which both languages share; empty if there is none.
        text: Plain text, with `HOLE` where something is missing; empty for what is no text.
    """

    shape: str
    section: str
    text: str


def tidy(text: str) -> str:
    """Composes accents, removes invisible characters and needless white space."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    text = " ".join(text.split())
    text = re.sub(r" ([,;:!?)\]]|\.(?=\s|$))", r"\1", text)
    return re.sub(r"([(\[]) ", r"\1", text)


def declared_entities(text: str) -> dict[str, str]:
    """Returns the entities that a DocBook file or an entity file declares."""
    return {name: double or single for name, double, single in _DECLARATION.findall(text)}


def html_blocks(content: str) -> list[Block]:
    """Returns the blocks of an HTML page."""
    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    if not content.strip():
        return []
    root = lxml_html.document_fromstring(content.encode(), parser=parser)
    return _blocks(root)


def xml_blocks(content: str, entities: Mapping[str, str]) -> list[Block]:
    """Returns the blocks of a DocBook or Mallard file.

    Args:
        content: The file.
        entities: Values of entities that the file does not declare itself.
    """
    known = {**entities, **declared_entities(content)}
    body = _resolve(_DOCTYPE.sub("", content, count=1), known)
    parser = etree.XMLParser(recover=True, huge_tree=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(body.encode(), parser)
    return [] if root is None else _blocks(root)


def inline_text(markup: str) -> str:
    """Returns the text of a message with inline markup such as `<b>`."""
    if "<" not in markup and "&" not in markup:
        return tidy(markup)
    return tidy(_text(lxml_html.fragment_fromstring(markup, create_parent="p")))


def _resolve(text: str, entities: Mapping[str, str]) -> str:
    """Replaces entities by their values, which may hold further ones; unknown ones leave a hole."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in _XML_ENTITIES:
            return match[0]
        if name in entities:
            return entities[name]
        return html5.get(f"{name};", HOLE)

    for _ in range(5):
        text = _ENTITY.sub(value, text)
    return text


def _name(element: Any) -> str:
    """Returns the name without namespace; empty for what is no element."""
    tag = element.tag
    return str(tag).rsplit("}", 1)[-1].lower() if isinstance(tag, str) else ""


def _classes(element: Any) -> set[str]:
    """Returns the words of the class attribute."""
    return set(element.get("class", "").split())


def _text(element: Any) -> str:
    """Returns the text of an inline element."""
    name = _name(element)
    classes = _classes(element)
    if not name or name in _SKIPPED or classes & _SKIPPED_CLASSES:
        return ""
    if "switchinline" in classes:  # LibreOffice: one wording for each system, the usual one last
        return _text(element[-1]) if len(element) else ""
    if name in _HOLES:
        return HOLE
    if name in _JOINED:
        parts = [_text(child).strip() for child in element]
        return _JOINED[name].join(part for part in parts if part)
    inner = (element.text or "") + "".join(_text(child) + (child.tail or "") for child in element)
    if name in _LINKS and not inner.strip():
        is_target = set(element.keys()) <= {"id", "name", "class"}
        return "" if is_target else HOLE
    before, after = _WRAPPED.get(name, ("", ""))
    return before + inner + after


def _own_text(element: Any) -> str:
    """Returns the text of a block up to the first block inside it."""
    text = element.text or ""
    for child in element:
        if _name(child) in _ENDS_TEXT:
            break
        text += _text(child) + (child.tail or "")
    return tidy(text)


def _blocks(root: Any) -> list[Block]:
    """Returns the blocks below an element, in document order."""
    found: list[Block] = []
    section = ""

    def walk(element: Any, parent: str) -> None:
        nonlocal section
        name = _name(element)
        identifier = _identifier(element, name)
        if identifier:
            section = identifier
        if not name or _NAVIGATION & _classes(element):
            return
        if name in _NOT_TEXT:
            found.append(Block(name, section, ""))
            return
        if name in _BLOCKS:
            found.append(Block(f"{parent}/{name}", section, _own_text(element)))
        for child in element:
            walk(child, name)

    walk(root, "")
    return found


def _identifier(element: Any, name: str) -> str:
    """Returns the id that an author gave to an element; empty if a tool made it up."""
    if not name:
        return ""
    identifier = element.get("id") or element.get("{http://www.w3.org/XML/1998/namespace}id")
    if not identifier and name == "a":
        identifier = element.get("name")
    return "" if not identifier or _GENERATED_ID.match(identifier) else str(identifier)
