"""Transform lark's parse tree to the syntax tree, rule by rule."""
