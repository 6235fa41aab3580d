{# Rows: the classes of the model that are less than l-diverse, one for each sensitive column. l: a number, or one a
   column. kind: distinct, entropy or recursive (with c). Below `columns:` the column is the sensitive one. #}
{% test l_diversity(model, quasi_identifiers, l, sensitive=none, kind='distinct', c=none, suppressed=none, column_name=none) %}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    {% if suppressed is not none %}
    suppressed := {{ duckanon.value(suppressed) }},
    {% endif %}
    sensitive := {{ duckanon.columns(sensitive or column_name) }},
    l := {{ duckanon.value(l) }},
    {% if c is not none %}
    c := {{ duckanon.value(c) }},
    {% endif %}
    l_diversity := {{ duckanon.value(kind) }}
)
{% endtest %}
