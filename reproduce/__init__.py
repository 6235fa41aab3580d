"""Every table and worked example of the four papers, published beside measured: ``make reproduce``."""
