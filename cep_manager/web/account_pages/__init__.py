"""The console's pages about accounts."""
