"""The HTML page of a frontier: charts of what other choices lose, and the table to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.audits.html.charts import frontier_charts, required
from duckanon.audits.html.report import render

if TYPE_CHECKING:
    import pyarrow as pa

_NODE_WORDS = (
    (
        "Loss",
        "mean over the columns, 0 to 1: leaves below the released label but one, over all leaves but one",
    ),
    ("Suppressed", "share of the records that are left out"),
    ("Risk", "1 over the smallest class: the highest chance to find a person in a class"),
    ("t", "greatest distance (EMD) between the sensitive values of a class and of the release"),
    ("Minimal", "no node with a lower level keeps the thresholds"),
)


def frontier_page(rows: pa.Table) -> str:
    """HTML page of the rows of EXPLAIN ... FRONTIER, without scripts and without anything from elsewhere.

    Parameters
    ----------
    rows : pyarrow.Table
        Rows of `duckanon.release.frontier.frontier`.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    required()
    if "levels" not in rows.column_names:
        return render(
            "frontier.html.j2",
            title="What other k and t would cost",
            facts=f"{len(rows)} combinations",
            charts=frontier_charts(rows),
            how="Take a row by its k and t.",
            words=(),
        )
    return render(
        "frontier.html.j2",
        title="Levels to choose from",
        facts=f"full-domain generalization: {len(rows)} nodes that keep the thresholds",
        charts=frontier_charts(rows),
        how="Take a row by levels = {...} in the policy, as it stands in its first column.",
        words=_NODE_WORDS,
    )
