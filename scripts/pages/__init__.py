"""What is drawn and counted for the pages in docs/."""
