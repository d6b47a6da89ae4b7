"""The bottleneck experiment: plan and train runs, measure them, compare them, report.

plan            which runs belong to the experiment, and one command that finishes all of them
measure         what is measured on one finished run beyond its test translations
systems         runs that differ in their seed alone, and what may be compared
statistics      intervals and tests
findings        one file for each thing that the experiment finds out
results         everything that a comparison found, as `results.json`
report          figures and text, from `results.json` alone
"""
