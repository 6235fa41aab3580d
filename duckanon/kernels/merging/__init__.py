"""Classes that miss a threshold are merged until none does."""
