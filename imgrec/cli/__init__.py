"""The command line: a file for each verb, or for verbs that belong together."""
