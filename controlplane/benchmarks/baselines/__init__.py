"""What `manage.py reproduce nearchus` plays beside the figures: further baselines, and parts of ours left out."""
