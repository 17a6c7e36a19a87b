"""What it says: plan, summary, statistics and calibration."""
