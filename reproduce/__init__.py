"""Every table and worked example of the four papers, published and measured: ``make reproduce``."""
