"""Scripts that make shells complete the command line, made from its verbs and options."""
