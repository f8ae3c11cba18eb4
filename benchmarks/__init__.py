"""Speed and memory, shown as ratios and medians; never asserted in tests."""
