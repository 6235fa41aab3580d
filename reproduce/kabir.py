"""Kabir et al.: the worked example, Tables VI to VIII row by row, and the validity of the comparison.

Kabir, Mahmood, Mustafa and Wang, "Microaggregation Sorting Framework for K-Anonymity Statistical Disclosure
Control in Cloud Computing".
"""

from __future__ import annotations

from reproduce.kabir_claims import claims
from reproduce.kabir_example import tables_i_to_iii, tables_iv_and_v
from reproduce.kabir_scales import lower_bound, on_minmax_data, on_raw_data, on_zscored_data
from reproduce.kabir_tables import table_vi, table_vii, table_viii
from reproduce.rows import Maker

SECTIONS: tuple[Maker, ...] = (
    tables_i_to_iii,
    tables_iv_and_v,
    table_vi,
    table_vii,
    table_viii,
    on_raw_data,
    on_zscored_data,
    on_minmax_data,
    lower_bound,
    claims,
)
