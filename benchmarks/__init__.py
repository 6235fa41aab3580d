"""Performance bars, each as a ratio within one run, since machines are noisy."""
