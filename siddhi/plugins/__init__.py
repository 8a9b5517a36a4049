"""Extensions as plug-ins: the contents of one, and how those of this and other packages are found."""
