"""Code blocks of the documentation: found, classified and run."""
