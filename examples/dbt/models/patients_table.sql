{# The same as a table: the rows come from the table function, and dbt writes them. #}
{{ config(materialized='table') }}
select *
from anonymize(
    '{{ ref("patients") }}',
    identifiers := ['patient_id'],
    quasi_identifiers := ['age', 'zip'],
    sensitive := ['charge', 'diagnosis'],
    k := 5,
    t := {'charge': 0.2},
    l := {'diagnosis': 2}
)
