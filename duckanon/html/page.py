"""Page: the templates of the report, rendered with every value escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from duckanon.html.numbers import clean, counted, legible_lines, number, percent, threshold

_FOLDER = Path(__file__).parent.parent / "templates"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(number=number, counted=counted, percent=percent, threshold=threshold)
    environment.filters.update(clean=clean, legible=legible_lines)
    return environment


def render(name: str, /, **values: object) -> str:
    """HTML text of a template.

    Parameters
    ----------
    name : str
        File in ``duckanon/templates``.
    **values : object
        What the template names; a name without a value is an error. Text is escaped unless it is
        ``markupsafe.Markup``.

    Returns
    -------
    str
        The page.
    """
    return _environment().get_template(name).render(**values)
