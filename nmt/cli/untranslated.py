"""Says which translations are still in the source language, without changing any."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from nmt.data.language_identification import LanguageIdentifier, load_identifier
from nmt.translation import Translation

logger = logging.getLogger(__name__)


def name_untranslated(
    translations: Iterable[Translation], path: str, languages: tuple[str, str], *, first: int
) -> Iterator[Translation]:
    """Passes translations on; warns of each in the source language, and says how many at the end.

    Args:
        translations: Of all lines; the best of each is judged.
        path: A model file of `scripts/language_id.py`.
        languages: Source and target.
        first: The number of the first line.

    Raises:
        ValueError: At once, if the model cannot be used or is of other languages.
    """
    identifier = load_identifier(path, languages=languages)
    return _judged(translations, identifier, languages[0], first)


def _judged(
    translations: Iterable[Translation],
    identifier: LanguageIdentifier,
    source_lang: str,
    first: int,
) -> Iterator[Translation]:
    found = total = 0
    for translation in translations:
        (untranslated,) = identifier.clearly_in(source_lang, [translation.text])
        if untranslated:
            logger.warning("line %d looks untranslated (%s)", first + total, source_lang)
        found += untranslated
        total += 1
        yield translation
    logger.warning("%d of %d translations look untranslated (%s)", found, total, source_lang)
