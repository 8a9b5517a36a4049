"""The `unitconversion:` extension pack."""
