"""Audits of any relation, by the SQL of ``sql/audit`` alone, with their reports and evidence."""
