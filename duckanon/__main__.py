"""``python -m duckanon`` is the command line."""

from duckanon.cli import main

main()
