"""From syntax tree to analysed app: resolve names, type expressions, report problems."""
