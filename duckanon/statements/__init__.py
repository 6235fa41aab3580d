"""Reading of our statements: text to tokens, names, options and dataclasses. No statement is run here."""
