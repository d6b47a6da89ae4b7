"""Scores a checkpoint: python scripts/evaluate.py checkpoint=PATH [data=NAME] [split=test].

Also on a plain pair of files: checkpoint=PATH source=FILE reference=FILE.
"""

from nmt.cli.evaluate import main

if __name__ == "__main__":
    main()
