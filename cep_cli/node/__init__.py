"""`cep node`: one of two nodes that keep each other's accepted events.

config > processes > commands
"""
