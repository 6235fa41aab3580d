"""Released data are audited again and compared with all that was recorded of them."""
