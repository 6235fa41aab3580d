SELECT measure, attribute, threshold, value, violations, passed
FROM audit('census_t', ['age', 'sex', 'race', 'education', 'marital_status', 'household_role'],
           ['weeks_worked', 'occupation'], k := 5, t := {'weeks_worked': 0.3, 'occupation': 0.5});
