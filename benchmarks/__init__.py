"""Performance bars. Each bar is a ratio of two measurements in one run, since machines differ in speed."""
