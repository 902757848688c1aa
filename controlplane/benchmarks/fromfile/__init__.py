"""`manage.py simulate --experiment`: trainings of a file, played on the simulated cluster of `nearchus`."""
