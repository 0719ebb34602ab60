#!/usr/bin/env python3
"""Page through a million images with `imgrec view`, and hold its time to the goal.

    .venv/bin/python scripts/bench_view.py [--records 1000000] [--work DIR] [--json FILE]

A million drawn digits are packed once and kept in the work folder; photos are those that
scripts/bench_pack.py makes, if they are there. The real server answers over loopback. Of each kind
of page, several at random are asked for: what is on it, then all of its thumbnails. Their times are
those that whoever asks has to wait, first byte to last, in a fresh server and, since 100 images are
new each time, without the help of its cache.
"""
