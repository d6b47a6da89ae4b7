"""The demo page: translations of several models beside each other, and what they look at."""
