{# Rows: the classes of the model with fewer than k records. k: a number, or one a subset of the quasi-identifiers, as
   {'*': 5, '(age, sex)': 10}; k_subsets: {2: 50} for all pairs. suppressed: the mark of rows that are left out, as '*'. #}
{% test k_anonymity(model, quasi_identifiers, k, suppressed=none, k_subsets=none) %}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    {% if suppressed is not none %}
    suppressed := {{ duckanon.value(suppressed) }},
    {% endif %}
    {% if k_subsets is not none %}
    k_subsets := {{ duckanon.value(k_subsets) }},
    {% endif %}
    k := {{ duckanon.value(k) }}
)
{% endtest %}
