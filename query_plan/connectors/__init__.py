"""Sources, sinks and mappers as plans declare them.

The package knows which types exist, which options they accept, and what is wrong with a declaration. Validation,
managers and workers all use it; workers know how to run connectors.

    options     texts by name into typed structs, with every fault
    sources, sinks, mappers    the options of each type
    templates   `{{attribute}}` in texts
    reading     annotations into connectors
    judging     everything that is wrong with one connector
"""
