"""How a plan is divided: the survey of the app, execution groups, and how events are shared out between instances."""
