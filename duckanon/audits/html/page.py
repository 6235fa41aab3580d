"""Page: the templates of the report, rendered with every value escaped."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from duckanon.audits.html.numbers import clean, counted, legible_lines, number, percent, threshold

_FOLDER = Path(__file__).parents[2] / "templates"

_MARKS = re.compile(r"(?<=[_/.,;:?&=@|-])(?=[^\s_/.,;:?&=@|-])")
_LONG = 40
"""Letters of a word that is broken anywhere, for want of a better place."""


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
    environment.filters.update(clean=clean, legible=legible_lines, breakable=breakable)
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


def breakable(text: str) -> Markup:
    """Name or value that a narrow column may break behind its marks, and not within its words.

    Parameters
    ----------
    text : str
        A name or value of a user.

    Returns
    -------
    Markup
        Clean and escaped, with ``<wbr>`` behind underscores, slashes and the like; a word that is too long
        for any column is marked as one that may break anywhere.

    Examples
    --------
    >>> print(breakable("marital_status <b>"))
    marital_<wbr>status &lt;b&gt;
    """
    return Markup(" ").join(
        Markup("<wbr>").join(
            Markup('<span class="long">{}</span>').format(part) if len(part) > _LONG else escape(part)
            for part in _MARKS.split(word)
        )
        for word in clean(text).split(" ")
    )
