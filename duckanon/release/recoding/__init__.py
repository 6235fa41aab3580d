"""Values of classes for Arrow tables: streams and Spark write them by the rules of every release."""
