"""Learning-rate schedules, one per file: a factor on `optim.lr` for each optimizer step."""
