"""What a release withstands and what it is good for, measured beside its original."""
