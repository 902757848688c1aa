"""How django-allauth is set up and bent to our rules. Settings name these modules; nothing else needs them."""
