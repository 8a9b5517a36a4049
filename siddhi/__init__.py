"""SiddhiQL: the language, its analysis, and the engine that runs analysed apps."""
