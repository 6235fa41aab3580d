{# Rows: the classes of the model with fewer than k records. suppressed: the mark of rows that are left out, as '*'. #}
{% test k_anonymity(model, quasi_identifiers, k, suppressed=none) %}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    {% if suppressed is not none %}
    suppressed := {{ duckanon.value(suppressed) }},
    {% endif %}
    k := {{ duckanon.value(k) }}
)
{% endtest %}
