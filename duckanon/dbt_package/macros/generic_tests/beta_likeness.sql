{# Rows: the classes of the model that break beta-likeness, one for each sensitive column. beta: a number, or one a column. enhanced: by the
   lesser of beta and -ln q.
   Below `columns:` the column is the sensitive one. #}
{% test beta_likeness(model, quasi_identifiers, beta, enhanced=false, sensitive=none, suppressed=none, column_name=none) %}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    {% if suppressed is not none %}
    suppressed := {{ duckanon.value(suppressed) }},
    {% endif %}
    sensitive := {{ duckanon.columns(sensitive or column_name) }},
    {{ 'enhanced_beta' if enhanced else 'beta' }} := {{ duckanon.value(beta) }}
)
{% endtest %}
