{# Rows: the classes of the model that break delta-disclosure privacy, one for each sensitive column. delta: a number, or one a column.
   Below `columns:` the column is the sensitive one. #}
{% test delta_disclosure(model, quasi_identifiers, delta, sensitive=none, suppressed=none, column_name=none) %}
{{ duckanon.violating(model, quasi_identifiers, 'delta', delta, {
    'sensitive': sensitive or column_name, 'suppressed': suppressed
}) }}
{% endtest %}
