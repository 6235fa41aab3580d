{# A value of the project's YAML as a literal of SQL. #}
{%- macro value(given) -%}
{%- if given is none -%}
NULL
{%- elif given is mapping -%}
{ {%- for name in given %}{{ duckanon.text(name) }}: {{ duckanon.value(given[name]) }}{{ ", " if not loop.last }}{% endfor -%} }
{%- elif given is sequence and given is not string -%}
[ {%- for one in given %}{{ duckanon.value(one) }}{{ ", " if not loop.last }}{% endfor -%} ]
{%- elif given is number -%}
{{ given }}
{%- else -%}
{{ duckanon.text(given) }}
{%- endif -%}
{%- endmacro -%}

{# One column, or a list of columns. #}
{%- macro columns(given) -%}
[
{%- for name in ([given] if given is string else (given or [])) -%}
{{ duckanon.text(name) }}{{ ", " if not loop.last }}
{%- endfor -%}
]
{%- endmacro -%}

{%- macro text(given) -%}
'{{ given | string | replace("'", "''") }}'
{%- endmacro -%}
