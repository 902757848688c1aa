"""All constants of the plan, as its experiment left them; they may be fixed anew on two sets of workloads only."""

# --- what is worth how much ------------------------------------------------------------------
EXPONENT = -0.25  # p of (speed ** p - 1) / p: the lower, the more a job with few GPUs gains against one with many
UNSERVED_SPEED = 0.7  # times its least speed: what a job counts that has no GPU
WORK_EXPONENT = -0.3  # of the weight of a job by its remaining work: less work goes first
WORK_SCALE = 600.0  # s of one slow GPU: below this, remaining work makes little difference

# --- what a change costs ---------------------------------------------------------------------
LONGEST_HORIZON = 3000.0  # s in which a restart has to pay off at most
NEW_HORIZON = 400.0  # s, and its age: as long a job whose work is not known is expected to run on
SETTLED_HORIZON = 600.0  # s, or the time since its last change: in which a restart for a known size has to pay off
CHANGE_COST = 2e-4  # of utility, for a s of restart, where a change gains no speed
SPREAD_OPTIMISM = 1.1  # times the expected speed on several nodes, until it has been seen

# --- what is remembered ----------------------------------------------------------------------
FINISHED_KEPT = 25  # jobs of a model whose total work is kept
LEAST_REMAINING = 0.03  # of the total work of its model: a job never counts as nearer to its end

# --- how it is solved ------------------------------------------------------------------------
EXACT_STATES = 60_000  # the product over types of GPUs + 1, up to which the best choice is found exactly
EXACT_CELLS = 8_000_000  # states times jobs, up to which it is
