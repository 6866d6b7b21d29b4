"""Result to Document: one builder a section, typed blocks, no format in sight."""
