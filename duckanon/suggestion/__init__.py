"""The role finder: which columns single people out, and a policy to begin with."""

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
