"""What users call: a connection with our statements, functions of Python and of SQL."""
