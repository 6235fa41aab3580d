-- The k-only release is measured against the thresholds of the other one.
AUDIT VIEW census_k WITH (t = {weeks_worked: 0.3, occupation: 0.5});
AUDIT VIEW census_t;
