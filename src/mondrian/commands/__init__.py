"""One module a subcommand of `mondrian`."""
