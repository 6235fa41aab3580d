"""``python -m duckanon`` is the command line."""

from duckanon.cli.main import main

main()
