"""What others need to test what they add to Fairway."""
