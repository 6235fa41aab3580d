{# The query of the model becomes an anonymized view: released, audited and published in one transaction.
   config: policy = the options of CREATE ANONYMIZED VIEW ... WITH (...). #}
{% materialization anonymized_view, adapter='duckdb', supported_languages=['sql'] %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {#- dbt gives Python code the connection of the model. -#}
  {% call statement('main', language='python') -%}
from duckanon.dbt import publish


def dbtObj(load):
    return None


def model(dbt, session):
    query = {{ tojson(compiled_code) }}
    publish(session, query, {{ tojson(target_relation | string) }}, {{ tojson(tojson(config.get('policy'))) }})


def materialize(result, session):
    return None
  {%- endcall %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {#- The comment of the view is the mark by which duckanon knows its release. -#}
  {% do persist_docs(target_relation, model, for_relation=False) %}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
