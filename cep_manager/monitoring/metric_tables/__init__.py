"""The metrics of plans over time: in tables of a database, as WSO2's products have them, and in memory."""
