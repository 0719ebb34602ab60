"""Feed every parser that meets bytes of strangers with damaged ones, for as long as you like.

What a parser may raise is documented; anything else is a bug, and so are 2 GiB of memory more than
at the start, or ten seconds of computing on one input. That is then written to a file and named.

Example: python scripts/fuzz.py --seconds 600, or --only archive --seed 3
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests/support")]

from parsers import Parser, make_parsers, mutated  # noqa: E402  # they are where tests are

MOST_CPU_S, MOST_S = 10, 120
MORE_BYTES = 2 << 30


class TooLong(Exception):
    """One input took more time than any should."""


def give_up(signum: int, _frame: FrameType | None) -> None:
    """End what takes too long."""
    raise TooLong(f"{MOST_CPU_S} s of CPU" if signum == signal.SIGPROF else f"{MOST_S} s")


def limit_memory() -> None:
    """Let no input take much more memory than there is in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def fuzz(name: str, parser: Parser, seconds: float, seed: int) -> tuple[int, list[str]]:
    """Feed one parser; return how many inputs it got, and what it must not have done."""
    chance, bugs = random.Random(f"{seed} {name}"), dict[str, str]()
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(chance, parser.seeds)
        count += 1
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        signal.alarm(MOST_S)
        try:
            parser.try_on(data)
        except Exception as error:  # noqa: BLE001  # that is what we are looking for
            trace, innermost = error.__traceback__, ""
            while trace:
                innermost = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
                trace = trace.tb_next
            what = f"{type(error).__name__} at {innermost}"
            if what not in bugs:
                path = Path(f"fuzz-{name.replace(' ', '-')}-{len(bugs)}.bin").absolute()
                path.write_bytes(data)
                bugs[what] = f"{name}: {what}: {error}; see {path}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    return count, list(bugs.values())


def main() -> int:
    """Fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=60, help="for all parsers together")
    parser.add_argument("--only", default="", help="parsers whose names begin so")
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args()
    for signum in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(signum, give_up)
    found: list[str] = []
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(prefix="fuzz-", dir=memory) as folder:
        parsers = make_parsers(Path(folder))
        chosen = {name: each for name, each in parsers.items() if name.startswith(parsed.only)}
        limit_memory()
        total = 0
        for name, each in chosen.items():
            count, bugs = fuzz(name, each, parsed.seconds / len(chosen), parsed.seed)
            print(f"{count:10,}  {name}", flush=True)
            print("".join(f"{'':12}BUG {bug}\n" for bug in bugs), end="", flush=True)
            total += count
            found += bugs
    print(f"{total:10,}  inputs, {len(found)} bugs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
