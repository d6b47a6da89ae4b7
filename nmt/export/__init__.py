"""Trained models in other engines' formats; the one so far is CTranslate2's."""
