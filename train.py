"""Trains a translation model: python train.py model=transformer data=grammar key=value ...

The options are the keys of conf/train.yaml and of the groups it names. What happens:
`nmt.cli.train.main`.
"""

from nmt.cli.train import main

if __name__ == "__main__":
    main()
