{# An anonymized view: everyone who reads it sees released values only. #}
{{ config(
    materialized='anonymized_view',
    policy={
        'identifiers': ['patient_id'],
        'quasi_identifiers': ['age', 'zip'],
        'sensitive': ['charge', 'diagnosis'],
        'k': 5,
        't': {'charge': 0.2},
        'l': {'diagnosis': 2},
    },
) }}
select patient_id, age, zip, charge, diagnosis
from {{ ref('patients') }}
