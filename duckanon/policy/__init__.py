"""What a release must keep: roles of columns, thresholds, and how both meet the columns of a source."""
