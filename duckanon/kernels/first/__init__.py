"""First partitions: methods that form classes from nothing."""
