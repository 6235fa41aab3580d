{# Rows: the classes of the model with fewer than k records. #}
{% test k_anonymity(model, quasi_identifiers, k) %}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    k := {{ duckanon.value(k) }}
)
{% endtest %}
