"""`cep node`: one of two nodes that replicate accepted events.

config > processes > commands
"""
