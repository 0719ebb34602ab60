"""Near-duplicates: find images that look alike by their signatures."""
