"""The mix: notebooks, a service and trainings on one small cluster, under Weft and what it is compared with."""
