"""Run queries over one stream as rules that share work, with an index over their conditions."""
