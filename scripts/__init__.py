"""Programs around the package: `python scripts/NAME.py --help`. The package never imports them."""
