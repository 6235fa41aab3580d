{# Rows: the classes of the model that break beta-likeness, one for each sensitive column. beta: a number, or one a column. enhanced: by the
   lesser of beta and -ln q.
   Below `columns:` the column is the sensitive one. #}
{% test beta_likeness(model, quasi_identifiers, beta, enhanced=false, sensitive=none, suppressed=none, column_name=none) %}
{{ duckanon.violating(model, quasi_identifiers, 'enhanced_beta' if enhanced else 'beta', beta, {
    'sensitive': sensitive or column_name, 'suppressed': suppressed
}) }}
{% endtest %}
