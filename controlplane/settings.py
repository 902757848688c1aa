"""Process settings, from the environment; the defaults are the embedded mode.

Every secret may come from a file: NAME_FILE=/run/secrets/x. Scheduling policy is not here
but in versioned rows (controlplane.domain.policy): environment needs a restart, policy does not.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

import environ

from controlplane.domain import retention
from controlplane.kubeobjects import usernames
from controlplane.runtime.logformat import logging_of
from controlplane.signin import configuration

env = environ.FileAwareEnv()
BASE_DIR = Path(__file__).resolve().parent.parent

# --- where things lie -------------------------------------------------------------------------
DATA_DIR = Path(env.str("WEFT_HOME", str(BASE_DIR / ".weft")))  # database and simulated cluster of the embedded mode
WEFT_DATA = Path(env.str("WEFT_DATA", str(BASE_DIR.parent / "shared" / "data")))  # traces for benchmarks and TRACE=
WHAT_IF_PROCESS = env.bool(
    "WEFT_WHAT_IF", default=True
)  # a what-if that is asked on a page or by REST is answered in a process of its own

# --- security ---------------------------------------------------------------------------------
EMBEDDED = env.bool("WEFT_EMBEDDED", default=not {"DATABASE_URL", "DATABASE_URL_FILE"} & os.environ.keys())
DEBUG = False  # no environment turns it on: its pages show settings and code to whoever causes an error
MIN_KEY, MIN_LETTERS = 50, 8  # characters, and how many of them differ


def _secret_key() -> str:
    """The configured key; in the embedded mode one made on first use and kept beside the database."""
    configured: str = env.str("SECRET_KEY", "")
    if configured and not EMBEDDED and (len(configured) < MIN_KEY or len(set(configured)) < MIN_LETTERS):
        sys.exit(
            f"SECRET_KEY is weak: it has {len(configured)} characters, {len(set(configured))} of them different. "
            f"Set SECRET_KEY or SECRET_KEY_FILE to {MIN_KEY} or more random characters: openssl rand -hex 32"
        )
    if configured:
        return configured
    if not EMBEDDED:
        sys.exit("SECRET_KEY is not set. Set SECRET_KEY or SECRET_KEY_FILE to 50 or more random characters.")
    from django.core.management.utils import get_random_secret_key

    path = DATA_DIR / "secret_key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_text(get_random_secret_key())
        return path.read_text()
    except OSError as error:
        sys.stderr.write(
            f"Weft keeps its data in {DATA_DIR}, which cannot be used ({error.strerror}). Mend its permissions, or "
            "name another folder: WEFT_HOME=FOLDER make up.\n"
        )
        sys.exit(2)


SECRET_KEY = _secret_key()
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])  # what they signed or sealed still counts
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]", "testserver"])
if "*" in ALLOWED_HOSTS and not EMBEDDED:
    sys.exit("ALLOWED_HOSTS is *, so requests under any host name are accepted. Name its hosts: ALLOWED_HOSTS=a,b")
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
TLS = env.bool("WEFT_TLS", default=not EMBEDDED)  # pages are served over https (by a proxy in front)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = TLS
SECURE_REDIRECT_EXEMPT = ["^(healthz|readyz|metrics)$"]  # supervisors and Prometheus ask without the proxy
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("WEFT_TRUST_PROXY", default=False) else None
SECURE_HSTS_SECONDS = 31_536_000 if TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = TLS
SESSION_ENGINE = "controlplane.security.sessions"
SESSION_COOKIE_AGE = env.int("WEFT_SESSION_SECONDS", default=12 * 3600)  # after signing in, whatever one does
SESSION_IDLE_SECONDS = env.int("WEFT_SESSION_IDLE_SECONDS", default=2 * 3600)  # after the last thing one did
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# By these names browsers take them over https only, from this host alone (ASVS 3.3.1). Over http they take neither.
_only_here = "__Host-" if TLS else ""
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{_only_here}sessionid", f"{_only_here}csrftoken"
# What a page may load, run and send; no inline script, no inline style, no eval.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        # Plotly makes a style element and fills it by script: the digest is that of an empty one, no other is allowed.
        "style-src": ["'self'", "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "manifest-src": ["'self'"],
        # Browsers ask this of where a form's answer leads to as well: sign-in at a provider is such a redirect.
        "form-action": ["'self'", *configuration.origin(env), *env.list("WEFT_FORM_TARGETS", default=[])],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}
_INLINE = "'unsafe-inline'"
# By prefix of the address, in place of the pages' directives; docs/security.md says what needs each.
CSP_EXCEPTIONS: dict[str, dict[str, list[str]]] = {
    "/admin/": {"script-src": ["'self'", _INLINE, "'unsafe-eval'"], "style-src": ["'self'", _INLINE]},
    "/api/": {"script-src": ["'none'"], "style-src": ["'none'"], "img-src": ["'none'"], "connect-src": ["'none'"]},
    "/api/docs": {"style-src": ["'self'", _INLINE]},
}
PASSWORD_HASHERS = ["controlplane.signin.hashing.Argon2"]
AUTH_USER_MODEL = "controlplane.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "frontend:login"
CSRF_FAILURE_VIEW = "frontend.views.accounts.form_refused"
LOGIN_REDIRECT_URL = "frontend:dashboard"
LOGOUT_REDIRECT_URL = "frontend:login"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576

# --- single sign-on and the second step (docs/accounts.md): django-allauth, as controlplane.signin bends it ----
OIDC_ISSUER = env.str("WEFT_OIDC_ISSUER", "").rstrip("/")  # empty: passwords only
OIDC_NAME = env.str("WEFT_OIDC_NAME", "single sign-on")
OIDC_GROUPS_CLAIM = env.str("WEFT_OIDC_GROUPS_CLAIM", "groups")
OIDC_ADMIN_GROUP = env.str("WEFT_OIDC_ADMIN_GROUP", "")  # whoever is in it is a platform admin; empty: made by hand
OIDC_ALGORITHMS = tuple(env.list("WEFT_OIDC_ALGORITHMS", default=["RS256", "PS256", "ES256"]))
SSO_UNCHECKED = timedelta(seconds=env.int("WEFT_SSO_UNCHECKED_SECONDS", default=7 * 86_400))  # docs/accounts.md
ADMINS_NEED_TWO_STEPS = env.bool("WEFT_ADMINS_NEED_TWO_STEPS", default=False)
SERVICE_TOKEN_NOTICE = timedelta(seconds=env.int("WEFT_SERVICE_TOKEN_NOTICE_SECONDS", default=72 * 3600))
REAUTHENTICATE = env.bool("WEFT_REAUTHENTICATE", default=not EMBEDDED)  # before accounts are changed in the console
SOCIALACCOUNT_PROVIDERS = configuration.providers(env, OIDC_ISSUER, OIDC_NAME)
SOCIALACCOUNT_ADAPTER = "controlplane.signin.adapters.ProviderAdapter"
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False  # the same address does not make it the same person
ACCOUNT_ADAPTER = "controlplane.signin.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*"]
ACCOUNT_FORMS = {"reauthenticate": "controlplane.signin.forms.PasswordAgain"}
MFA_FORMS = {
    "authenticate": "controlplane.signin.forms.SecondStep",
    "reauthenticate": "controlplane.signin.forms.CodeAgain",
    "activate_totp": "controlplane.signin.forms.FirstCode",
}
MFA_ADAPTER = "controlplane.signin.adapters.SecondStepAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER = "Weft"
MFA_TOTP_TOLERANCE = 1  # steps of 30 s: clocks of telephones are off by some seconds

# --- application ------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_filters",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    *configuration.APPS,
    "controlplane",
    "frontend",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "controlplane.guards.headers.SecurityHeaders",
    "controlplane.guards.limiting.RateLimit",  # before files: the largest has megabytes
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "controlplane.security.sessions.activity",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "controlplane.signin.required.LoginRequired",  # what is open says so: login_not_required
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "controlplane.guards.auditing.AuditLog",
    "controlplane.guards.addresses.without_nul",
    "allauth.account.middleware.AccountMiddleware",
    "controlplane.signin.two_steps.requirement",
    "controlplane.guards.naming.names",
]
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
WSGI_APPLICATION = "controlplane.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "frontend" / "templates"],  # before the admin library's
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "frontend.context.page",
            ]
        },
    }
]
STATIC_URL = "static/"
UNFOLD = {
    "SITE_TITLE": "Weft",
    "SITE_HEADER": "Weft",
    "SITE_SUBHEADER": "Platform admin",
    "SITE_URL": "/",
    "SHOW_VIEW_ON_SITE": False,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": f"/{STATIC_URL}frontend/logo.svg"}],
    "SIDEBAR": {"navigation": "controlplane.admin.site.navigation"},
    # The pages' accent (frontend/static/frontend/tokens.css) and its neighbours.
    "COLORS": {"primary": {"400": "#8aa2ff", "500": "#5c7cfa", "600": "#3b5bdb", "700": "#364fc7"}},
}
STATIC_ROOT = DATA_DIR / "static"
WHITENOISE_USE_FINDERS = EMBEDDED
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

# --- database ---------------------------------------------------------------------------------
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'weft.sqlite3'}")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # WAL: pages read while a loop writes. IMMEDIATE: a writer waits its turn instead of failing half-way.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        # Compiling a statement costs more than running it.
        "cached_statements": 1024,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536; "
        "PRAGMA wal_autocheckpoint=4000;",
    }
    DATABASES["default"]["TEST"] = {"NAME": os.environ.get("WEFT_TEST_SQLITE") or None}
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    # A pool, for all threads of a process; those that answer requests keep theirs (asgi.py).
    most = env.int("WEFT_DATABASE_CONNECTIONS", default=16)  # of one process
    DATABASES["default"].setdefault("OPTIONS", {}).update(
        options="-c lock_timeout=2s -c statement_timeout=10s -c idle_in_transaction_session_timeout=15s",
        # Statements are prepared from their third run on: Postgres spends as long on planning them as on running them.
        server_side_binding=True,
        prepare_threshold=3,
        pool={"min_size": 1, "max_size": most, "timeout": 5.0},
    )

# For `manage.py install`: the database users that web and worker will be, with what each needs and no more.
DATABASE_ROLES = {"web": env.str("WEB_DATABASE_URL", ""), "worker": env.str("WORKER_DATABASE_URL", "")}

# --- cluster ----------------------------------------------------------------------------------
CLUSTER = env.str("CLUSTER", "simulated")  # simulated | kubernetes
PROMETHEUS_URL = env.str("PROMETHEUS_URL", "")  # docs/metrics.md; empty: what is not measured is not known
PROMETHEUS_TOKEN_FILE = os.environ.get("PROMETHEUS_TOKEN_FILE", "")  # the path: clusters replace the token every hour
PROMETHEUS_CA = env.str("PROMETHEUS_CA", "")  # a file of certificates; empty: the well-known authorities
# So many waiting workloads have their pods in the cluster already: those at the head of the queue start by one write a
# pod, and `kubectl describe pod` tells why they wait. 0: pods are made when they are placed. Many, since one that is
# made only then takes three times as long to bind (benchmark kubernetes-bind), and one that is there costs nearly
# nothing: with 2,000 that wait, looking at them takes 15 ms every 5 s.
PREPARED_WORKLOADS = env.int("WEFT_PREPARED_WORKLOADS", 2000)
TRAINING_WINDOW_SECONDS = env.float("WEFT_TRAINING_WINDOW_SECONDS", 60.0)  # cluster clock, between looks at trainings
RESIZE_SECONDS = env.float("WEFT_RESIZE_SECONDS", 300.0)  # cluster clock; then a change of CPU and memory is put back
SIMULATED_STORE = Path(env.str("WEFT_SIMULATED_STORE", str(DATA_DIR / "cluster.sqlite3")))

# --- tenants (docs/kubernetes.md); `manage.py manifests` writes the same into the cluster's policy -----------
NAMESPACE_PREFIX = env.str("WEFT_NAMESPACE_PREFIX", "weft-")
PLACEHOLDER_IMAGE = env("WEFT_PLACEHOLDER_IMAGE", default="busybox:1.36")  # has a shell; holds devices for shares
ACTIVATOR_IMAGE = env.str("WEFT_ACTIVATOR_IMAGE", "")  # Weft's own: then `manifests` has the queue before services
ENFORCER_IMAGE = env.str("WEFT_ENFORCER_IMAGE", "")  # Weft's own: then `manifests` has what holds shares on nodes
NOTEBOOK_PROXY_IMAGE = env.str("WEFT_NOTEBOOK_PROXY_IMAGE", "")  # Weft's own: then `manifests` has their proxy
ACTIVATORS = tuple(env.list("WEFT_ACTIVATORS", default=[]))  # host:port of their admin ports (docs/activator.md)
DRA = env.bool("WEFT_DRA", False)  # a DRA driver offers parts of GPUs: the scheduler's account may make claims
ISTIO = env.bool("WEFT_ISTIO", False)  # Istio is there: it splits requests of services without our queue
REGISTRIES = tuple(f"{r.rstrip('/')}/" for r in env.list("WEFT_REGISTRIES", default=[]))  # empty: any
EXTRA_RESOURCES = tuple(env.list("WEFT_EXTRA_RESOURCES", default=["rdma/"]))  # prefixes of resource names
# Which of our users a user of Kubernetes is (docs/kubernetes-objects.md); neither set: none is.
KUBERNETES_USER_PREFIX = env.str(
    "WEFT_KUBERNETES_USER_PREFIX", ""
)  # before our names, as the API server has it; -: none
try:
    KUBERNETES_USERS = usernames.pairs(env.list("WEFT_KUBERNETES_USERS", default=[]))
except ValueError as error:
    sys.exit(str(error))
# Whether the admission server runs (`manage.py admission`): then `manifests` has its webhook, and objects of Kubernetes
# with the label weft.dev/queue are workloads (docs/adopting.md).
ADMISSION = env.bool("WEFT_ADMISSION", False)
# Queued Deployments may ask for Kubernetes' own autoscaler on what Weft measures: Weft serves external.metrics.k8s.io.
EXTERNAL_METRICS = env.bool("WEFT_EXTERNAL_METRICS", False)
# Kubernetes users that make pods of queued objects, beside Kubernetes' own controllers.
CONTROLLERS = tuple(env.list("WEFT_CONTROLLERS", default=["system:serviceaccount:kubeflow:training-operator"]))
ADMISSION_CA = env.str("WEFT_ADMISSION_CA", "")  # a PEM file: what signed its certificate; empty: put in by other means

ADMIN_PASSWORD = env.str("ADMIN_PASSWORD", "")  # read by `manage.py install` only

# --- telling people (docs/notifications.md) ----------------------------------------------------
CURRENCY = env.str("WEFT_CURRENCY", "USD")  # of the node pools' prices, shown beside each cost
PUBLIC_URL = env.str("WEFT_URL", "").rstrip("/")  # how people reach these pages: for links in mails and webhooks
# Where browsers reach the proxy of notebooks; each has a host below this one (docs/notebooks.md#the-proxy).
NOTEBOOK_URL = env.str("WEFT_NOTEBOOK_URL", "").rstrip("/")
EMAIL_CONFIGURED = bool({"EMAIL_URL", "EMAIL_URL_FILE"} & os.environ.keys())  # without one no mail is offered
vars().update(env.email_url("EMAIL_URL", default="dummymail://"))  # smtp+tls://user:password@host:587
EMAIL_TIMEOUT = 10  # s, for each answer of the mail server
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.str("EMAIL_FROM", "Weft <weft@localhost>")
MAIL_DOMAIN = DEFAULT_FROM_EMAIL.rstrip(">").rpartition("@")[2]
WEBHOOK_PRIVATE = env.list("WEFT_WEBHOOK_PRIVATE", default=[])  # networks that webhooks may reach, public or not
WEBHOOK_CA = env.str("WEFT_WEBHOOK_CA", "")  # a file of certificates for receivers, besides the well-known authorities

# --- logs and metrics: one JSON object a line in production ------------------------------------
LOGGING = logging_of(json=env.bool("WEFT_LOG_JSON", default=not EMBEDDED), level=env.str("WEFT_LOG_LEVEL", "INFO"))
METRICS_TOKEN = env.str("METRICS_TOKEN", "")  # what Prometheus shows to read /metrics; empty: off, but open if embedded
CELLS = tuple(env.list("WEFT_CELLS", default=[]))  # those that this worker decides for; empty: all (docs/cells.md)
LOOPS = tuple(env.list("WEFT_LOOPS", default=[]))  # those that this worker runs; empty: all
WORKER_METRICS_PORT = env.int("WEFT_WORKER_METRICS_PORT", default=0)  # 0: none
WORKER_METRICS_ADDRESS = env.str("WEFT_WORKER_METRICS_ADDRESS", "127.0.0.1")

# --- rounds -----------------------------------------------------------------------------------
# So many live workloads, at most, where what waits and why is worked out anew for each question: a tenth of a second.
# Beyond, the newest full round is asked (queries/rounds).
DRY_RUN_MOST = env.int("WEFT_DRY_RUN_MOST", default=1000)
LEDGER_CHECK_EVERY = 1000  # rounds of one process; tests compare in each (scheduler/state/recount.py)

# --- what is kept (docs/production.md#what-is-kept): days by variable, applied by the loop `prune` -----------
KEEP_DAYS = retention.from_environment(env.str)

# --- Celery: a message is only a hint, truth is in the database (docs/promises.md, L2) --------
REDIS_URL = env.str("REDIS_URL", "")
CELERY_BROKER_URL = REDIS_URL or "memory://"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = False  # a hint that is delivered again is worth nothing, and each worker has its own copy
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # for ever: without hints the loops go by their periods
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {
        "visibility_timeout": 60,
        "unacked_restore_interval": 2,
        "unacked_restore_throttle": 1,
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 10,
    }
    if REDIS_URL
    else {}
)

# --- limits (docs/security.md): requests a second, over 10 s; far above what people and CI do ------
RATE_LIMITS = {
    "user": env.float("WEFT_USER_REQUESTS", 500.0),  # of one token or session
    "address": env.float("WEFT_ADDRESS_REQUESTS", 2000.0),  # of one IP address
    "anonymous": env.float("WEFT_ANONYMOUS_REQUESTS", 100.0),  # of one address, without token or session
    "strangers": env.float("WEFT_STRANGERS_REQUESTS", 5.0),  # of all tokens not known yet, in one process
    "sign_ins": env.float("WEFT_FAILED_SIGN_INS", 0.2),  # of all addresses where nobody is signed in, in one process
    "expensive": env.float("WEFT_EXPENSIVE_REQUESTS", 50.0),  # of one token or session: reports, files, what-if
    "submissions": env.float("WEFT_TEAM_SUBMISSIONS", 500.0),  # workloads of one team, by REST and pages
}
EXPENSIVE_AT_ONCE = 3  # of one token or session in all processes together; one has four threads
STREAM_BEAT = env.float("WEFT_STREAM_BEAT", 15.0)  # s after which a silent stream of a page says that it is alive
STREAMS_AT_ONCE = env.int("WEFT_STREAMS", 400)  # of one token or session in all processes together
MAX_QUEUED = env.int("WEFT_MOST_QUEUED", 20_000)  # workloads of one team that wait

# --- REST -------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.TokenAuthentication",
        "controlplane.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["controlplane.api.rendering.Renderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "controlplane.api.errors.problem",
    "URL_FORMAT_OVERRIDE": None,  # ?format= is an unknown parameter like any other
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Weft",
    "DESCRIPTION": "One control plane for notebooks, training and inference on one GPU cluster.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [],  # no invented names for enumerations
}
