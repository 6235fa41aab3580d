"""The partition methods that a policy can name: guarantees, cost and source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A partition method.

    Attributes
    ----------
    name : str
        Name for `partition` and for the option `method`.
    guarantees : str
        Thresholds that every class keeps without repair.
    cost : str
        Order of the run time for n records.
    source : str
        Publication of the method.
    """

    name: str
    guarantees: str
    cost: str
    source: str


_DOMINGO_2002 = "Domingo-Ferrer and Mateo-Sanz, IEEE TKDE 14(1), 2002"
_LASZLO = "Laszlo and Mukherjee, IEEE TKDE 17(7), 2005"
_LIN = "Lin, Wen, Hsieh and Chang, Expert Systems with Applications 37(4), 2010"
_CHANG = "Chang, Li and Huang, Journal of Systems and Software 80(11), 2007"
_KABIR = "Kabir, Mahmood, Mustafa and Wang, IEEE Transactions on Cloud Computing, 2015"
_TORRA = "Domingo-Ferrer and Torra, Data Mining and Knowledge Discovery 11(2), 2005"
_SORIA_COMAS = "Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, IEEE TKDE 27(11), 2015"
_STEERED = "Domingo-Ferrer and Soria-Comas, steered microaggregation, 2017"
_MONDRIAN = "LeFevre, DeWitt and Ramakrishnan, ICDE 2006"
_SABRE = "Cao, Karras, Kalnis and Tan, The VLDB Journal 20(1), 2011: written from descriptions of it"

_FIXED_SIZE = "k; classes of k..2k-1"
_QUADRATIC_COST = "O(n^2 / k)"

BY_NAME = {
    method.name: method
    for method in (
        Method(
            "auto",
            "k, and t where given: always",
            "O(n log n) beyond 8192 records; with t O(n^2 / k)",
            "own method: the least loss of several first partitions, see docs/methods/auto.md",
        ),
        Method("blocks", "k", "O(n log n)", "own method: MDAV in the blocks of a kd order"),
        Method("cbfs", _FIXED_SIZE, _QUADRATIC_COST, _LASZLO),
        Method("dba1", _FIXED_SIZE, "O(n^2)", _LIN + ", first stage"),
        Method("dba2", _FIXED_SIZE, "O(n^2)", _LIN + ", both stages"),
        Method(
            "full_domain",
            "k, l and t: always, or an error",
            "O(n) a node of the lattice",
            "LeFevre, DeWitt and Ramakrishnan, SIGMOD 2005, Incognito; the optimum, with suppression",
        ),
        Method("k_ward", _FIXED_SIZE, "O(n^2)", _DOMINGO_2002 + ", k-Ward"),
        Method("kanonymity_first", "k and t", "O(n^2)", _SORIA_COMAS + ", Algorithm 2, then merging"),
        Method("m_d", _FIXED_SIZE, "O(n^2)", _LASZLO + ", MST partition, then diameter-based fixed size"),
        Method("maximum_distance", _FIXED_SIZE, "O(n^2)", _DOMINGO_2002 + ", MD"),
        Method("mdav", _FIXED_SIZE, _QUADRATIC_COST, _TORRA),
        Method("mdav1", _FIXED_SIZE, _QUADRATIC_COST, _LIN + ", MDAV-1"),
        Method("mdav2", _FIXED_SIZE, _QUADRATIC_COST, _LIN + ", MDAV-1 and the second stage"),
        Method("mdav_generic", _FIXED_SIZE, _QUADRATIC_COST, _TORRA + ", MDAV-generic"),
        Method("meansort_ps", _FIXED_SIZE, "O(n^2)", _KABIR + ", Eq. 5 and Algorithm 2"),
        Method("mhm", _FIXED_SIZE, "O(n^2)", "Domingo-Ferrer et al., The VLDB Journal 15(4), 2006"),
        Method("mondrian", "k, and t where given: always", "O(n log n)", _MONDRIAN + ", strict"),
        Method("mondrian_relaxed", "k, and t where given: always", "O(n log n)", _MONDRIAN + ", relaxed"),
        Method(
            "mu_approx",
            _FIXED_SIZE,
            "O(n^2)",
            "Domingo-Ferrer, Sebé and Solanas, Computers and Mathematics with Applications 55(4), 2008",
        ),
        Method("multidsort_ps", _FIXED_SIZE, "O(n^2)", _KABIR + ", Algorithms 1 and 2"),
        Method("sabre", "k and t", "O(n^2)", _SABRE),
        Method(
            "steered",
            "k; t where no sensitive values are equal and the buckets divide n, in a release always",
            "O(n^2 / k)",
            _STEERED + ", Algorithm 1",
        ),
        Method(
            "tcloseness_first",
            "k; t where no sensitive values are equal and the class size divides n, else nearly",
            "O(n^2 / k)",
            _SORIA_COMAS + ", Algorithm 3",
        ),
        Method("tcloseness_merge", "k and t", "O(n^2 / k)", _SORIA_COMAS + ", Algorithm 1"),
        Method("tfrp1", _FIXED_SIZE, _QUADRATIC_COST, _CHANG + ", first stage"),
        Method("tfrp2", _FIXED_SIZE, _QUADRATIC_COST, _CHANG + ", both stages"),
        Method(
            "univariate",
            _FIXED_SIZE + ", the least loss of all",
            "O(n log n)",
            "Hansen and Mukherjee, IEEE TKDE 15(4), 2003",
        ),
        Method("vmdav", "k; classes of k..3k-2", "O(n^2)", "Solanas and Martínez-Ballesté, COMPSTAT 2006"),
    )
}
"""The methods, `auto` first. What runs is in `duckanon.literature.registry`."""

METHODS = tuple(BY_NAME)
"""Names of the methods that a policy can name."""

ALIASES = {"incognito": "full_domain"}
"""Other names of methods, with the method that each means."""

RECORDED = (*METHODS, "anatomy", "forest", "k_alone")
"""Methods that metadata may record; for `auto` they record its first partition."""
