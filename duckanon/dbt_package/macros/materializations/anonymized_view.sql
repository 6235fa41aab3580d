{# The query of the model becomes an anonymized view: released, audited and published in one transaction.
   config: policy = the options of CREATE ANONYMIZED VIEW ... WITH (...). #}
{% materialization anonymized_view, adapter='duckdb', supported_languages=['sql'] %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- if flags.EMPTY -%}
    {{ exceptions.raise_compiler_error("--empty leaves no rows to release, so the view stays as it is: run dbt without --empty, or with --exclude config.materialized:anonymized_view") }}
  {%- endif -%}
  {%- set contract = '' -%}
  {%- if config.get('contract').enforced -%}
    {%- if not model['columns'] -%}
      {{ exceptions.raise_contract_error([], []) }}
    {%- endif -%}
    {%- set contract = get_empty_schema_sql(model['columns']) -%}
  {%- endif -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {#- Releases of several threads take turns, each in a transaction that begins when its turn has come. -#}
  {{ adapter.commit() }}

  {#- dbt gives Python code the connection of the model. -#}
  {% call statement('main', language='python') -%}
from duckanon.dbt import publish


def dbtObj(load):
    return None


def model(dbt, session):
    query = {{ tojson(compiled_code) }}
    publish(
        session,
        query,
        {{ tojson(target_relation | string) }},
        {{ tojson(tojson(config.get('policy'))) }},
        full_refresh={{ 'True' if should_full_refresh() else 'False' }},
        contract={{ tojson(contract) }},
    )


def materialize(result, session):
    return None
  {%- endcall %}

  {#- Raised here, it is one message: dbt would show the traceback of Python code. -#}
  {%- set told = run_query("select getvariable('duckanon_refused'), getvariable('duckanon_columns')") -%}
  {%- if told.columns[1].values()[0] is not none -%}
    {{ get_assert_columns_equivalent(told.columns[1].values()[0]) }}
  {%- endif -%}
  {%- if told.columns[0].values()[0] is not none -%}
    {{ exceptions.raise_compiler_error(told.columns[0].values()[0]) }}
  {%- endif -%}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {#- The comment of the view is the mark by which duckanon knows its release. -#}
  {% do persist_docs(target_relation, model, for_relation=False) %}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
