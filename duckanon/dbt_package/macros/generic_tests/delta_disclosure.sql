{# Rows: the classes of the model that break delta-disclosure privacy, one for each sensitive column. delta: a number, or one a column.
   Below `columns:` the column is the sensitive one. #}
{% test delta_disclosure(model, quasi_identifiers, delta, sensitive=none, suppressed=none, column_name=none) %}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    {% if suppressed is not none %}
    suppressed := {{ duckanon.value(suppressed) }},
    {% endif %}
    sensitive := {{ duckanon.columns(sensitive or column_name) }},
    delta := {{ duckanon.value(delta) }}
)
{% endtest %}
