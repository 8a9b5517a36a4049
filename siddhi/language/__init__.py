"""The text of SiddhiQL: parser, syntax tree and printer."""
