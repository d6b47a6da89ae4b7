"""An English-German corpus made of the documentation in Debian and Ubuntu packages."""
