{# Rows: the classes of the model with fewer than k records. k: a number, or one a subset of the quasi-identifiers, as
   {'*': 5, '(age, sex)': 10}; k_subsets: {2: 50} for all pairs. suppressed: the mark of rows that are left out, as '*'. #}
{% test k_anonymity(model, quasi_identifiers, k, suppressed=none, k_subsets=none) %}
{{ duckanon.violating(model, quasi_identifiers, 'k', k, {'suppressed': suppressed, 'k_subsets': k_subsets}) }}
{% endtest %}
