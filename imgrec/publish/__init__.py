"""Publishing: from the results of all shards to a dataset directory."""
