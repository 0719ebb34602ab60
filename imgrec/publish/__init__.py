"""From the results of all shards to a dataset directory that becomes visible at once."""
