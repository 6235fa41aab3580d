"""The commands of the command line; `duckanon.cli.options` declares their options, `main` combines them."""
