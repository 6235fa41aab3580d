"""What queries over a release answer, beside their answers from the original."""
