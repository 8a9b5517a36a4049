"""Extensions as plug-ins: what one consists of, and how those of this and of other packages are found."""
