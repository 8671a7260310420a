"""How figures look: colours and sizes for matplotlib, and fields as planes with common limits."""
