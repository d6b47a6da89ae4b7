"""Figures, drawn without a display and the same bytes for the same numbers."""
