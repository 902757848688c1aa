"""Services held to their objectives: ten kinds of load, the judge, the law and what it is compared with."""
