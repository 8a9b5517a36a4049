"""Tables of a plan whose rows are kept in a database.

engine's thread   StoredTable ──changes──► TableKeeper ◄──rows── others
keeper's thread                            Pending ──► Writes ──► DatabaseTable
"""
