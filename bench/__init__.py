"""What Fairway costs and how it compares, measured in one run on one machine: `make bench`."""
