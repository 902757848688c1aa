"""Elastic training: measured step times, a simulator of rounds, Sia as the policy to compare with, and the judges."""
