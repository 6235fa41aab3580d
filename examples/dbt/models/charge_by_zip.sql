{# A model downstream of the release; it never sees the patients. #}
select zip, count(*) as patients, avg(charge) as average_charge
from {{ ref('patients_anon') }}
group by zip
