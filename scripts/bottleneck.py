"""The bottleneck experiment: trains the models under one budget, measures and compares them.

    python scripts/bottleneck.py                                   # built-in corpus, one seed
    python scripts/bottleneck.py --seeds 1,2,3 --slots 1,2,4,8 --updates 2400 --rnn-budgets 2,4
    python scripts/bottleneck.py --experiment multi30k_joined --split test_joined data.directory=DIR
    python scripts/bottleneck.py --jobs 2 --set transformer optimizer.lr=4e-3 threads=1

Further arguments are options of train.py, the same for every run. Each run has its own folder
below OUTPUT/runs; a finished one is kept, an interrupted one resumes from its last.ckpt, so the
same command can be given again until all is done, with more seeds or models too. The comparison
is written to OUTPUT/report.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "bottleneck":  # pandas, which looks for a library of this name beside the script
    raise ImportError("scripts/bottleneck.py is a program, not the library bottleneck")

from nmt.checks import UserError, flag_main
from nmt.cli.compare import main as compare
from nmt.study import plan

TRAIN = Path(__file__).resolve().parents[1] / "train.py"
PROBE = Path(__file__).resolve().with_name("probe.py")


@flag_main
def main(argv: Sequence[str] | None) -> int:
    """Runs what is not done yet; returns the exit status."""
    options = plan.parse(argv, description=__doc__)
    if not plan.same_options(options):
        raise UserError(
            f"{options.output} holds runs made with other options (see its options.json): give "
            "another --output."
        )
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    status, folders = plan.finish_runs(options, train=TRAIN, probe=PROBE)
    report = str(options.output / "report")
    return status or compare([*map(str, folders), "--split", options.split, "--output", report])


def _exit_on_sigterm(number: int, _: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
