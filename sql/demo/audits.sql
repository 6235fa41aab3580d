-- demo: audits
-- does: measures the k-only release against the thresholds of the other one
-- reads: the views of demo/demo.sql.j2
-- returns: two reports
AUDIT VIEW census_k WITH (t = {weeks_worked: 0.3, occupation: 0.5});
AUDIT VIEW census_t;
