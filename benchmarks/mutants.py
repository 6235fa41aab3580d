"""Broken copies of an audit, each with one small change of the kind that people make.

Changes are made on the syntax tree: comparisons, NULL handling, arithmetic, constants, aggregates, DISTINCT,
keys of GROUP BY, PARTITION BY and ORDER BY, joins, filters, frames, CASE branches, lost records. Casts are
not changed: they matter only beyond 2^31 records (tests/sql/test_differential.py tests them).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import sqlglot
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Change = Callable[[exp.Expr], exp.Expr | None]

COMPARISONS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
OTHER_OPERATORS: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    **{kind: tuple(other for other in COMPARISONS if other is not kind) for kind in COMPARISONS[:4]},
    exp.EQ: (exp.NEQ,), exp.NEQ: (exp.EQ,), exp.NullSafeEQ: (exp.EQ,), exp.NullSafeNEQ: (exp.NEQ,),
    exp.Add: (exp.Sub,), exp.Sub: (exp.Add,), exp.Mul: (exp.Add,), exp.Div: (exp.Mul,),
    exp.IntDiv: (exp.Mul,), exp.And: (exp.Or,), exp.Or: (exp.And,),
    exp.Greatest: (exp.Least,), exp.Least: (exp.Greatest,),
    exp.Min: (exp.Max,), exp.Max: (exp.Min,), exp.Sum: (exp.Max,), exp.Avg: (exp.Max,),
    exp.Lag: (exp.Lead,), exp.Lead: (exp.Lag,), exp.RowNumber: (exp.DenseRank,),
    exp.DenseRank: (exp.RowNumber, exp.Rank), exp.Rank: (exp.DenseRank,),
}  # fmt: skip
REMOVABLE_FUNCTIONS = (
    exp.Abs,
    exp.Neg,
    exp.Not,
    exp.Filter,
    exp.Sqrt,
    exp.Floor,
    exp.Ceil,
    exp.Round,
    exp.Coalesce,
)
CLAUSES = (exp.Where, exp.Having, exp.WindowSpec)
LISTS_OF_PARTS = ((exp.Window, "partition_by"), (exp.Order, "expressions"), (exp.Case, "ifs"))


class Mutant(NamedTuple):
    """A broken audit."""

    audit: str  # name of its file, without ``.sql``
    change: str  # ``CTE: before => after``, with a number among equal changes
    sql: str  # the broken SELECT


def mutants(audit: str, body: str) -> list[Mutant]:
    """Return the broken copies of an audit, one change each, in a fixed order and without duplicate SQL."""
    tree = sqlglot.parse_one(body, read="duckdb")
    seen = {written(tree)}
    alike: Counter[str] = Counter()
    found = []
    for place, node in enumerate(tree.walk()):
        for number, _ in enumerate(changes(node)):
            broken = tree.copy()
            target = list(broken.walk())[place]
            before = place_of(target) + ("" if isinstance(target, exp.Select) else written(target))
            after = list(changes(target))[number](target)
            sql = written(broken)
            if sql not in seen:
                seen.add(sql)
                change = f"{before} => {'' if after is None else written(after)}".rstrip()
                alike[change] += 1
                again = f" #{alike[change]}" if alike[change] > 1 else ""
                found.append(Mutant(audit, change + again, sql))
    return found


def written(node: exp.Expr) -> str:
    """Return the SQL text of a part of a query on one line."""
    return node.sql(dialect="duckdb", comments=False)


def place_of(node: exp.Expr) -> str:
    """Return the name of the CTE that a part of a query is in, or ``result`` for the last SELECT."""
    cte = node.find_ancestor(exp.CTE)
    return f"{cte.alias if cte else 'result'}: "


def changes(node: exp.Expr) -> Iterator[Change]:
    """Yield the possible faults of a place; a change edits its tree and returns the new part."""
    for kind in OTHER_OPERATORS.get(type(node), ()):
        yield partial(_other, kind=kind)
    if isinstance(node, (*REMOVABLE_FUNCTIONS, *ARITHMETIC, exp.And, exp.Or)):
        yield partial(_operand, key="this")
    if isinstance(node, (exp.And, exp.Or)):
        yield partial(_operand, key="expression")
    if isinstance(node, CLAUSES):
        yield _taken_out
    for kind, key in LISTS_OF_PARTS:
        if isinstance(node, kind) and len(node.args.get(key) or ()) > (kind is not exp.Window):
            yield from (partial(_fewer, key=key, number=number) for number in range(len(node.args[key])))
    yield from _of_numbers(node)
    yield from _of_orders(node)
    yield from _of_queries(node)
    yield from _of_results(node)
    yield from _of_joins_and_cases(node)
    yield from _of_counts(node)


def _of_numbers(node: exp.Expr) -> Iterator[Change]:
    """Constants and limits of comparisons, changed by one or by a power of ten."""
    if isinstance(node, exp.Literal) and node.is_string:
        yield partial(_put, other=exp.Literal.string(node.name + "?"))
    elif isinstance(node, exp.Literal):
        number = float(node.name)
        near = [number + 1, number - 1] if number.is_integer() else [0.0, number * 1000]
        for other in [*near, number // 10] if number >= 10 else near:
            yield partial(
                _put, other=exp.Literal.number(f"{other:.0f}" if other.is_integer() else f"{other}")
            )
    elif isinstance(node, COMPARISONS[:4]) and not isinstance(node.expression, exp.Literal):
        for step in ("1", "-1"):
            yield partial(_shifted, step=step)


def _of_orders(node: exp.Expr) -> Iterator[Change]:
    if isinstance(node, exp.Ordered):
        yield partial(_with, key="desc", value=not node.args.get("desc"))
        if node.this.name in {"value", "class"}:
            yield partial(_with, key="nulls_first", value=True)


def _of_queries(node: exp.Expr) -> Iterator[Change]:
    """Faults of queries: keys of a GROUP BY, classes of one record, records without a value, a lost class."""
    if isinstance(node, exp.Group):
        yield from (partial(_ungrouped, number=number) for number in range(len(node.expressions)))
        if node.parent is not None and not node.parent.args.get("having"):
            yield _without_singles
    elif isinstance(node, exp.Select):
        if node.args["from_"].this.name == "class_member" and not node.args.get("where"):
            yield _without_null
        if node.parent is None:
            yield _first_row


def _of_results(node: exp.Expr) -> Iterator[Change]:
    """Faults of selected values: off by one, lost, or judged although unknown."""
    query = node.parent
    if not isinstance(query, exp.Select) or node.arg_key != "expressions":
        return
    if isinstance(node.unalias(), exp.Null):
        return
    if query.parent is None or not isinstance(node.unalias(), (exp.Column, exp.Literal)):
        for text in ("{} + 1", "{} - 1", "NULL"):
            yield partial(_projected, text=text)
    if isinstance(node.unalias(), COMPARISONS):
        for text in ("coalesce({}, FALSE)", "coalesce({}, TRUE)"):
            yield partial(_projected, text=text)


def _of_joins_and_cases(node: exp.Expr) -> Iterator[Change]:
    if isinstance(node, exp.Join) and node.args.get("on"):
        for side in {None, "LEFT", "RIGHT"} - {node.side or None}:
            yield partial(_with, key="side", value=side)
    if isinstance(node, exp.Union):
        yield partial(_with, key="distinct", value=not node.args.get("distinct"))
        for key in ("this", "expression"):
            if isinstance(node.args[key], exp.Select):
                yield partial(_emptied, key=key)
    if isinstance(node, exp.Distinct):
        yield _not_distinct
    if isinstance(node, exp.Case) and node.args.get("default"):
        yield partial(_with, key="default", value=None)
    if isinstance(node, exp.If):
        yield partial(_with, key="this", value=exp.not_(node.this.copy()))


def _of_counts(node: exp.Expr) -> Iterator[Change]:
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        for text in ("count(DISTINCT class)", "count(value)", "count(DISTINCT value)"):
            yield partial(_put, other=sqlglot.parse_one(text, read="duckdb"))
    elif isinstance(node, exp.Count) and not isinstance(node.this, exp.Distinct):
        yield partial(_put, other=exp.Count(this=exp.Distinct(expressions=[node.this.copy()])))
        yield partial(_put, other=exp.Count(this=exp.Star()))


def _put(node: exp.Expr, other: exp.Expr) -> exp.Expr:
    return node.replace(other.copy()) if node.parent else node


def _other(node: exp.Expr, kind: type[exp.Expr]) -> exp.Expr:
    return node.replace(kind(**{key: part for key, part in node.args.items() if part is not None}))


def _operand(node: exp.Expr, key: str) -> exp.Expr:
    part: exp.Expr = node.args[key]
    node.replace(part)
    return part


def _emptied(union: exp.Expr, key: str) -> exp.Expr:
    part: exp.Expr = union.args[key].where("FALSE", copy=False)
    return part


def _taken_out(node: exp.Expr) -> None:
    node.pop()


def _with(node: exp.Expr, key: str, value: object) -> exp.Expr:
    node.set(key, value)
    return node


def _fewer(node: exp.Expr, key: str, number: int) -> exp.Expr:
    parts: Sequence[exp.Expr] = node.args[key]
    return _with(node, key, [part for place, part in enumerate(parts) if place != number])


def _shifted(node: exp.Expr, step: str) -> exp.Expr:
    return _with(node, "expression", sqlglot.parse_one(f"({node.expression.sql('duckdb')}) + ({step})"))


def _ungrouped(group: exp.Expr, number: int) -> exp.Expr:
    """Drop a key; if the key is selected, the greatest value of the group replaces it."""
    query, key = group.parent, group.expressions[number]
    assert query is not None
    _fewer(group, "expressions", number)
    for projection in list(query.expressions):
        for column in list(projection.find_all(exp.Column)):
            if column == key and not column.find_ancestor(exp.AggFunc):
                some = exp.Max(this=column.copy())
                column.replace(exp.alias_(some, column.name) if column is projection else some)
    if not group.expressions:
        group.pop()
    return group


def _without_singles(group: exp.Expr) -> exp.Expr:
    query = group.parent
    assert isinstance(query, exp.Select)
    return _part(query.having("count(*) > 1", copy=False), "having")


def _without_null(query: exp.Expr) -> exp.Expr:
    assert isinstance(query, exp.Select)
    source = query.args["from_"].this.alias_or_name
    return _part(query.where(f"{source}.value IS NOT NULL", copy=False), "where")


def _first_row(query: exp.Expr) -> exp.Expr:
    assert isinstance(query, exp.Select)
    return _part(query.limit(1, copy=False), "limit")


def _projected(projection: exp.Expr, text: str) -> exp.Expr:
    part = projection.unalias().sql("duckdb")
    other = sqlglot.parse_one(text.format(f"({part})"), read="duckdb")
    return projection.replace(exp.alias_(other, projection.alias_or_name))


def _not_distinct(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node.parent, exp.Select):
        node.pop()
        return None
    part: exp.Expr = node.expressions[0]
    node.replace(part)
    return part


def _part(node: exp.Expr, key: str) -> exp.Expr:
    part: exp.Expr = node.args[key]
    return part
