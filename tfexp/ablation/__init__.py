"""Studies: study -> plan -> launch -> statistics -> report. May import everything but the CLI."""
