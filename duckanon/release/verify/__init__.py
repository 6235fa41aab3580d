"""Verification: released data are audited again and compared with their records."""
