"""The role finder: columns that identify people, and a policy to start from."""

from duckanon.suggestion.find import suggest, suggest_query
from duckanon.suggestion.model import ColumnSet, ColumnSuggestion, SpecialUniques, Suggestion

__all__ = [
    "ColumnSet",
    "ColumnSuggestion",
    "SpecialUniques",
    "Suggestion",
    "suggest",
    "suggest_query",
]
