"""What is there to pack: names, sizes, labels and splits of a source, never its pixels."""
