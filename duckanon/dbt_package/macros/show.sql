{# dbt show runs the query of a model, which for an anonymized view gives the rows of its source. #}
{%- macro get_show_sql(compiled_code, sql_header, limit) -%}
  {%- if model is defined and model.config.materialized == 'anonymized_view' -%}
    {{ exceptions.raise_compiler_error("dbt show would print rows of the source of '" ~ model.name ~ "', which are not released: dbt show --inline \"select * from {{ ref('" ~ model.name ~ "') }}\" shows the release") }}
  {%- endif -%}
  {{ dbt.get_show_sql(compiled_code, sql_header, limit) }}
{%- endmacro -%}
