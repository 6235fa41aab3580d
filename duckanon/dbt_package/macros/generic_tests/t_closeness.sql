{# Rows: the classes of the model that are farther than t from the whole, one for each sensitive column. t: a number, or
   one a column. distance: ordered or equal, by column. order: by column the values of a text, the least first. Below
   `columns:` the column is the sensitive one. #}
{% test t_closeness(model, quasi_identifiers, t, sensitive=none, distance=none, order=none, suppressed=none, column_name=none) %}
{{ duckanon.violating(model, quasi_identifiers, 't', t, {
    'sensitive': sensitive or column_name, 'suppressed': suppressed, 'distance': distance, 'order': order
}) }}
{% endtest %}
