"""The programs: parse, call the package, print."""
