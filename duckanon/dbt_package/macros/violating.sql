{# Rows: the classes of the model that break a threshold. threshold: its name and value, which is refused if it is none.
   others: options by name, none where nothing is asked. #}
{%- macro violating(model, quasi_identifiers, threshold, given, others) -%}
select *
from violating_classes(
    {{ duckanon.text(model) }},
    quasi_identifiers := {{ duckanon.columns(quasi_identifiers) }},
    {%- for name, option in others.items() if option is not none %}

    "{{ name }}" := {{ duckanon.columns(option) if name == 'sensitive' else duckanon.value(option) }},
    {%- endfor %}

    {{ threshold }} := {{ duckanon.value(given) }}
)
{%- endmacro -%}
