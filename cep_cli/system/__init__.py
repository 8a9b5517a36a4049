"""Commands that start the processes of a system and package it."""
