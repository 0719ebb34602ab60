"""Images that look alike: finding them by their signatures, and what belongs together then."""
