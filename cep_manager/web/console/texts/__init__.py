"""What the pages of the console say. Pure: structs in, texts out."""
