{# Rows: the classes of the model in which a sensitive value has a larger share than alpha, one for each sensitive column. alpha: a number, one
   a column, or numbers of named values of a column.
   Below `columns:` the column is the sensitive one. #}
{% test alpha_k_anonymity(model, quasi_identifiers, alpha, sensitive=none, suppressed=none, column_name=none) %}
{{ duckanon.violating(model, quasi_identifiers, 'alpha', alpha, {
    'sensitive': sensitive or column_name, 'suppressed': suppressed
}) }}
{% endtest %}
