"""The audits as DuckDB macros, generated from ``sql/audit``, so that the reviewed text is the running text.

An audit in ``sql/audit`` is one SELECT over the values of one sensitive column. A macro takes a list of
columns: `for_every_attribute` adds the attribute to every grouping, window and join of the SELECT, and the
templates of ``sql/macro`` bind the SELECT to a table and check the arguments. The SELECT may have CTEs and
joins with ON, but no nested SELECT. Classes of different attributes have different numbers, so a window or
join within a class stays as it is. The relation ``tree`` has no attribute, because all columns share it.

``python -m duckanon.audits.macros`` writes the statements to ``sql/install.sql``, the parts in ``sql/gate``
to ``sql/gate.sql``, and the tables of audits to ``sql/README.md``. With ``--check`` it only checks these
files.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.generators.duckdb import DuckDBGenerator

from duckanon.audits import headers
from duckanon.audits.headers import listed
from duckanon.database import templates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_WITHOUT_ATTRIBUTE = frozenset({"tree"})
_ATTRIBUTE = "attribute"
_LOOKED_UP_CTES = frozenset({"faced"})
"""CTEs with few rows that are joined to many rows, each of which finds one. DuckDB does not know the few."""
_DIVERSITY_SUFFIX = "_l_diversity"
_PLAIN_TEMPLATE = "macro/plain.sql.j2"
_PART_TEMPLATE = "macro/part.sql.j2"
_LAST_PLACE = 900
"""Place of macros without a template: after the other macros, before `audit`."""


def bindings() -> dict[str, str]:
    """Templates below ``sql/`` that make the audit macros, by name, in the order of ``install.sql``.

    ``macro/<name>.sql.j2``, or ``macro/plain.sql.j2`` for an audit of `headers.MEMBERS`. ValueError if such
    an audit reads values, because only a template of its own can say in which form.
    """
    own = headers.templates_of_macros()
    places = {name: (place, f"macro/{name}.sql.j2") for name, place in own.items()}
    for name in headers.audit_names():
        if name not in places and headers.header(name).reads == headers.MEMBERS:
            if _reads_values(name):
                # Values of columns of several types are replaced by ranks, which only some audits accept.
                template = f"sql/macro/{name}.sql.j2"
                raise ValueError(
                    f"sql/audit/{name}.sql reads values: write {template}, as that of l_diversity"
                )
            places[name] = (_LAST_PLACE, _PLAIN_TEMPLATE)
    return {name: places[name][1] for name in sorted(places, key=lambda name: (places[name][0], name))}


def macro_statement(name: str, *, temporary: bool) -> str:
    """Statement for one audit macro, from the present files; it reads no other macro."""
    return _made(name, bindings()[name], temporary, _given(None))


@cache
def _statements(temporary: bool) -> tuple[str, ...]:
    given = _given(None)
    return tuple(_made(name, template, temporary, given) for name, template in bindings().items())


def macro_statements(*, temporary: bool) -> list[str]:
    """Statements for the audit macros, one each, without a semicolon; they read no other macro.

    Temporary macros vanish with the connection. The first call parses for some 0.2 s; the result is kept.
    """
    return list(_statements(temporary))


def installed() -> list[tuple[str, str]]:
    """Statements of ``sql/install.sql`` with their questions; parts have none and precede their readers."""
    made: dict[str, str] = {}
    given = _given(made)
    for name, template in bindings().items():
        made[name] = _made(name, template, True, given)
    asked = questions()
    return [(asked.get(name, ""), in_lines(text)) for name, text in made.items()]


def questions() -> dict[str, str]:
    """Question that each audit macro answers, by name."""
    files = {
        name: template.replace(_PLAIN_TEMPLATE, f"audit/{name}.sql") for name, template in bindings().items()
    }
    return {name: headers.entries(templates.read(file))["question"] for name, file in files.items()}


def _made(macro: str, template: str, temporary: bool, given: Mapping[str, object]) -> str:
    return templates.render(template, macro=macro, temporary=temporary, **given).strip()


def _given(parts: dict[str, str] | None) -> dict[str, object]:
    """Arguments of a template: functions that read audits, relations and the parts in ``sql/macro/part``.

    `parts` collects the statements of the parts that are read; if it is None, parts are written inline.
    """

    def use(part: str, **arguments: str) -> str:
        macro, name = known[part], f"duckanon_{part}"
        given = {"name": name, "parameters": macro.arguments}
        if parts is None:
            return templates.render(_PART_TEMPLATE, form="text", body=macro(**arguments).strip(), **given)
        if name not in parts:
            body = macro(*macro.arguments).strip()
            parts[name] = templates.render(_PART_TEMPLATE, form="macro", body=body, **given)
        return templates.render(_PART_TEMPLATE, form="call", arguments=arguments, **given)

    # An audit that several macros read is parsed once.
    writers = {"body": cache(_body), "plain": _plain, "relation": _relation, "use": use}
    known = {
        name: macro
        for path in sorted((templates.folder() / "macro" / "part").glob("*.sql.j2"))
        for name, macro in templates.macros(f"macro/part/{path.name}", **writers).items()
    }
    diversities = [measure for measure in headers.verdicts() if measure.endswith(_DIVERSITY_SUFFIX)]
    kinds = {measure.removesuffix(_DIVERSITY_SUFFIX): headers.rows_of(measure) for measure in diversities}
    return {**writers, "columns_of": _columns, "kinds": kinds}


def _relation(given: str) -> str:
    """SQL text after FROM for the relation given to a part: a name as text, or a parameter with a name."""
    return given[1:-1] if given.startswith("'") else f"query_table({given})"


def generated() -> dict[str, str]:
    """Texts of the generated files below ``sql/``, by name."""
    plain = {name: _columns(name) for name, template in bindings().items() if template == _PLAIN_TEMPLATE}
    return {
        "install.sql": templates.render("macro/install.sql.j2", statements=installed()),
        "gate.sql": templates.render("gate/gate.sql.j2"),
        "README.md": listed(templates.read("README.md"), macro_statements(temporary=False), plain),
    }


class _Explicit(DuckDBGenerator):
    """Writes the place of NULL in every order, because users may change DuckDB's default."""

    TYPE_MAPPING = {**DuckDBGenerator.TYPE_MAPPING, exp.DataType.Type.INT128: "HUGEINT"}  # noqa: RUF012

    def ordered_sql(self, expression: exp.Ordered) -> str:
        text = super().ordered_sql(expression)
        if " NULLS " in text:
            return text
        return f"{text} NULLS {'FIRST' if expression.args.get('nulls_first') else 'LAST'}"


def _body(audit: str, **relations: str) -> str:
    """An audit for every sensitive column; keywords replace the relations that it reads."""
    return for_every_attribute(templates.read(headers.audit_file(audit)), relations)


def _plain(audit: str, **relations: str) -> str:
    """An audit as it is written; keywords replace the relations that it reads."""
    text = headers.split(templates.read(headers.audit_file(audit)))[1]
    for name, other in relations.items():
        text = re.sub(rf"\b(FROM|JOIN) {name}\b(?! AS)", rf"\1 {name} AS {name}", text)
        text = re.sub(rf"\b(FROM|JOIN) {name} AS\b", rf"\1 {other} AS", text)
    return text.strip()


def _query(text: str) -> exp.Select:
    return sqlglot.parse_one(headers.split(text)[1], read="duckdb", into=exp.Select)


def _columns(audit: str) -> list[str]:
    """Columns that an audit returns."""
    return _query(templates.read(f"audit/{audit}.sql")).named_selects


def _reads_values(audit: str) -> bool:
    """Tell whether an audit reads the values of class_member, or only the classes."""
    query = _query(templates.read(f"audit/{audit}.sql"))
    return any(column.name == "value" for column in query.find_all(exp.Column))


def for_every_attribute(body: str, relations: Mapping[str, str] | None = None) -> str:
    """Audit of several sensitive columns, from the audit of one; ValueError if the module's rules are broken.

    The relations and the result have a column ``attribute``; `relations` renames some relations. A CTE under
    a new name is left out, because its rows already exist.
    """
    query = _query(body)
    for cte in query.ctes:
        if cte.alias in (relations or {}):
            cte.pop()
    plain = set(_WITHOUT_ATTRIBUTE)
    for cte in query.ctes:
        if not _spread(cte.this, plain):
            plain.add(cte.alias)
    _spread(query, plain)
    for table in query.find_all(exp.Table):
        name = (relations or {}).get(table.name)
        if name is not None:
            alias = table.alias or table.name
            other = exp.maybe_parse(name, into=exp.Table, dialect="duckdb")
            table.replace(exp.alias_(other, alias, table=True))
    _look_up(query)
    writer = _Explicit(dialect="duckdb", pretty=True, max_text_width=100, normalize_functions="lower")
    return writer.generate(query)


def _spread(query: exp.Expr, plain: set[str]) -> bool:
    """Add the attribute to one SELECT or UNION; tell whether it reads a relation with an attribute."""
    if isinstance(query, exp.SetOperation):
        return any([_spread(query.left, plain), _spread(query.right, plain)])
    if not isinstance(query, exp.Select) or any(query.find_all(exp.Subquery)):
        raise ValueError(f"an audit is SELECTs over named relations, not {query.sql(dialect='duckdb')[:60]}")
    first = _join(query, plain)
    if first is None:
        return False
    aggregates = any(_aggregates(projection) for projection in query.expressions)
    _partition(query, first)
    if query.args.get("group") or aggregates:
        group = query.args.get("group") or exp.Group()
        group.set("expressions", [exp.column(_ATTRIBUTE, first), *group.expressions])
        query.set("group", group)
    query.set("expressions", [exp.column(_ATTRIBUTE, first), *query.expressions])
    return True


def _join(query: exp.Select, plain: set[str]) -> str | None:
    """Join all relations with an attribute on it; return the name of the first relation."""
    joins: Sequence[exp.Join] = query.args.get("joins") or []
    first: str | None = None
    for place, source in enumerate([query.args["from_"].this, *(join.this for join in joins)]):
        if source.name in plain:
            continue
        if first is None:
            first = source.alias_or_name
            continue
        join = joins[place - 1]
        same = exp.EQ(
            this=exp.column(_ATTRIBUTE, source.alias_or_name), expression=exp.column(_ATTRIBUTE, first)
        )
        join.set("kind", None)
        join.set("on", exp.and_(join.args["on"], same) if join.args.get("on") else same)
    return first


def _aggregates(projection: exp.Expr) -> bool:
    return any(call.find_ancestor(exp.Window) is None for call in projection.find_all(exp.AggFunc))


def _partition(query: exp.Select, first: str) -> None:
    """Add the attribute to the partition of every window, except windows within a class."""
    named = query.args.get("windows") or []
    windows = [*named, *(inline for part in query.expressions for inline in part.find_all(exp.Window))]
    for window in windows:
        if window.args.get("alias") and window not in named:
            continue
        keys = window.args.get("partition_by") or []
        if not any(isinstance(key, exp.Column) and key.name == "class" for key in keys):
            window.set("partition_by", [exp.column(_ATTRIBUTE, first), *keys])


def _look_up(query: exp.Select) -> None:
    """Read `_LOOKED_UP_CTES` by a subquery for each row of the relation that they are joined to.

    In a join DuckDB takes such a CTE for the larger side, and one thread goes through its few rows. The
    result of a subquery is always the side kept in memory. Its columns become fields of one column.
    """
    for select in list(query.find_all(exp.Select)):
        for join in list(select.args.get("joins") or []):
            if join.this.name in _LOOKED_UP_CTES:
                source, alias = select.args["from_"].this, join.this.alias_or_name
                found = exp.select(exp.column(alias)).from_(join.this.copy()).where(join.args["on"].copy())
                with_it = exp.select("*", exp.alias_(exp.paren(found), alias)).from_(source.copy())
                source.replace(with_it.subquery(source.alias_or_name))
                join.pop()


LINE_CHARACTERS = 120
"""Longest line of ``sql/install.sql``, except for longer words."""
_CALL_CHARACTERS = 80
_INDENT = 4
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[\w.$]+|<=|>=|<>|\|\||//|:=|::|\S")
_COMMENT = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|--[^\n]*")
_CLOSES = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
_STARTS = frozenset({"WITH", "SELECT", "UNION", "WHEN", "ELSE"})
"""Words that always begin a line."""
_JOINS = frozenset({"CROSS", "LEFT", "NATURAL", "ANTI", "FULL"})
_CLAUSES = _JOINS | {"FROM", "WHERE", "HAVING", "WINDOW", "LIMIT", "UNPIVOT", "JOIN", "GROUP", "ORDER"}


@dataclass(frozen=True)
class _Word:
    """A word of SQL, or a bracketed text; `apart` if a blank precedes it."""

    text: str
    apart: bool
    inner: tuple[_Word, ...] = ()
    close: str = ""


def in_lines(text: str) -> str:
    """Statement without comments, in lines of at most `LINE_CHARACTERS` except for longer words."""
    words = _nested(_COMMENT.sub(lambda found: found[1] or " ", text))
    return "\n".join(_block(words, 0))


def _nested(text: str) -> tuple[_Word, ...]:
    levels: list[list[_Word]] = [[]]
    opened: list[_Word] = []
    end = 0
    for found in _TOKEN.finditer(text):
        word = _Word(found[0], apart=found.start() > end and found[0] not in ",;")
        end = found.end()
        if word.text in _CLOSES:
            opened.append(word)
            levels.append([])
        elif opened and word.text == _CLOSES[opened[-1].text]:
            begin = opened.pop()
            levels[-2].append(_Word(begin.text, begin.apart, tuple(levels.pop()), word.text))
        else:
            levels[-1].append(word)
    return tuple(levels[0])


def _flat(words: Sequence[_Word]) -> str:
    """Words in one line, without blanks inside brackets."""
    parts = []
    for number, word in enumerate(words):
        blank = " " if number and word.apart else ""
        inside = " " if word.text == "CASE" else ""
        parts.append(f"{blank}{word.text}{inside}{_flat(word.inner)}{inside}{word.close}")
    return "".join(parts)


def _selects(words: Sequence[_Word]) -> bool:
    return any(word.text in {"SELECT", "WITH"} or _selects(word.inner) for word in words)


def _block(words: Sequence[_Word], indent: int) -> Iterator[str]:
    """Lines of words: clauses share a line if they fit, except for clauses that begin a line."""
    for unit in _units(words):
        whole = " " * indent + _flat([word for clause in unit for word in clause])
        if len(whole) <= LINE_CHARACTERS:
            yield whole
            continue
        line, selected = "", False
        for clause in unit:
            text = _flat(clause)
            if line and not selected and len(line) + 1 + len(text) <= LINE_CHARACTERS:
                line += f" {text}"
                continue
            if line:
                yield line
            *full, line = _filled(clause, indent)
            yield from full
            selected = clause[0].text == "SELECT"
        yield line


def _units(words: Sequence[_Word]) -> Iterator[list[list[_Word]]]:
    """Clauses of each SELECT, of each CTE and of each WHEN."""
    unit: list[list[_Word]] = []
    listed = False
    before = _Word("", apart=False)
    for word in words:
        listed = (listed or word.text == "WITH") and word.text not in {"SELECT", "FROM"}
        united = before.text == "NAME" or (before.text == "ALL" and word.text == "FROM")
        if unit and (word.text in _STARTS or (listed and before.text == ",") or united):
            yield unit
            unit = []
        if not unit or (word.text in _CLAUSES and before.text not in _JOINS):
            unit.append([])
        unit[-1].append(word)
        before = word
    if unit:
        yield unit


def _filled(words: Sequence[_Word], indent: int) -> list[str]:
    """Lines of one clause; a subquery or CASE that does not fit gets its own lines."""
    lines = [" " * indent]
    for word in _glued(_flowing(words)):
        text = (" " if word.apart and lines[-1].strip() else "") + _flat([word])
        if len(lines[-1]) + len(text) <= LINE_CHARACTERS:
            lines[-1] += text
        elif word.inner:
            base = len(lines[-1]) - len(lines[-1].lstrip())
            lines[-1] += text[: text.index(word.text)] + word.text
            lines += _block(word.inner, base + _INDENT)
            lines.append(" " * base + word.close)
        elif word.apart:
            lines.append(" " * (indent + _INDENT) + text.lstrip())
        else:
            lines[-1] += text
    return lines


def _flowing(words: Iterable[_Word]) -> Iterator[_Word]:
    """Words of a clause: a short bracket, a subquery or a CASE is one word; other brackets are several."""
    for word in words:
        flat = _flat([word])
        if not word.close or len(flat) <= _CALL_CHARACTERS:
            yield _Word(flat, word.apart)
        elif word.text == "CASE" or _selects(word.inner):
            yield word
        else:
            first, *others = word.inner
            yield _Word(word.text, word.apart)
            yield from _flowing([replace(first, apart=False), *others])
            yield _Word(word.close, apart=False)


def _glued(words: Iterable[_Word]) -> Iterator[_Word]:
    """Join words without a blank between them."""
    last: _Word | None = None
    for word in words:
        if last is not None and not (word.apart or word.inner or last.inner):
            last = replace(last, text=last.text + word.text)
            continue
        if last is not None:
            yield last
        last = word
    if last is not None:
        yield last


def main(arguments: Sequence[str]) -> int:
    """Write the generated files, or with ``--check`` tell which of them are stale.

    Returns 0; 1 if a file is stale, 2 for other arguments.
    """
    if arguments and list(arguments) != ["--check"]:
        sys.stderr.write("usage: python -m duckanon.audits.macros [--check]\n")
        return 2
    stale = 0
    for name, text in generated().items():
        path = templates.folder() / name
        if not arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"sql/{name} is not what its parts make: run make install-sql\n")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
