"""What makes the audits trustworthy: another tool beside them, the traps of other tools, and broken audits."""
