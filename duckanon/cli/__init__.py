"""The commands of the command line, one module each; `duckanon.cli.main` combines them."""
