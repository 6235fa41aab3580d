"""The commands of the command line, one a module; `duckanon.cli` puts them together."""
