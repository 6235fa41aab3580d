{# Rows: the classes of the model that are less than l-diverse, one for each sensitive column. l: a number, or one a
   column. kind: distinct, entropy or recursive (with c). Below `columns:` the column is the sensitive one. #}
{% test l_diversity(model, quasi_identifiers, l, sensitive=none, kind='distinct', c=none, suppressed=none, column_name=none) %}
{{ duckanon.violating(model, quasi_identifiers, 'l', l, {
    'sensitive': sensitive or column_name, 'suppressed': suppressed, 'l_diversity': kind, 'c': c
}) }}
{% endtest %}
