import pkgutil
import subprocess
import sys

from controlplane import api

EACH = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
import django, importlib
django.setup()
loaded = {name: module for name, module in sys.modules.items()}
for name in sys.argv[1:]:
    for other in [m for m in sys.modules if m not in loaded]:
        if other.startswith(("controlplane.api", "rest_framework", "drf_spectacular")):
            del sys.modules[other]
    importlib.import_module(name)
"""


def test_every_module_can_be_the_first_one_that_is_imported() -> None:
    """The framework's settings name our classes, so importing it imports us: a cycle hits whoever comes first."""
    names = [module.name for module in pkgutil.walk_packages(api.__path__, "controlplane.api.")]
    assert "controlplane.api.errors" in names
    done = subprocess.run([sys.executable, "-c", EACH, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
