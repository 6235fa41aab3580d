"""Records are exchanged between classes: less loss, and t repaired."""
