"""Our statements as text: tokens, names, options and what they ask for; nothing is run."""
