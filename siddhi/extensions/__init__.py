"""Extension packs: functions, aggregators, windows and stream functions beyond the built-in ones."""
