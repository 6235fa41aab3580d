{# Rows: the classes of the model that are farther than t from the whole, one for each sensitive column. t: a number, or
   one a column. distance: ordered or equal, by column. order: by column the values of a text, the least first. Below
   `columns:` the column is the sensitive one. #}
{% test t_closeness(model, quasi_identifiers, t, sensitive=none, distance=none, order=none, suppressed=none, column_name=none) %}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    {% if suppressed is not none %}
    suppressed := {{ duckanon.value(suppressed) }},
    {% endif %}
    sensitive := {{ duckanon.columns(sensitive or column_name) }},
    {% if distance is not none %}
    distance := {{ duckanon.value(distance) }},
    {% endif %}
    {% if order is not none %}
    "order" := {{ duckanon.value(order) }},
    {% endif %}
    t := {{ duckanon.value(t) }}
)
{% endtest %}
