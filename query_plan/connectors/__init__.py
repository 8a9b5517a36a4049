"""Sources, sinks and mappers as plans declare them: which types there are, what options they take, and what is wrong
with a declaration. Validation, managers and workers all judge with this package; workers know how to run them.

    options     texts by name into typed structs, with every fault
    sources, sinks, mappers    the options of each type
    templates   `{{attribute}}` in texts
    reading     annotations into connectors
    judging     everything that is wrong with one connector
"""
