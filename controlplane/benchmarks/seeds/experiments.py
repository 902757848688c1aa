"""What each experiment is: the claim, how it is played here, and what stands beside it. And the views of the report."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Experiment:
    """claim: in the words of its source, as far as they are known; played: here; beside: the baselines."""

    title: str
    claim: str
    played: str
    beside: str


@dataclass(frozen=True, slots=True)
class View:
    """A name of the command, and what its report has. paper: whose claims it also has of other experiments."""

    title: str
    experiments: tuple[str, ...]
    paper: str = ""


MIX = (
    "4 nodes with 4 T4; 8 notebooks (busy 5 to 25 %), a service that needs 2.4 +- 1.4 replicas and more in a burst "
    "each half hour, 12 trainings in three waves; sets ps, ar and mixed; notebooks and four replicas hold 12 of the 16 "
    "GPUs (docs/training-mix.md). Ours: one configuration with notebooks on demand and harvest. "
)
STRONG = (
    "native Kubernetes; with gangs; with gangs and binpack, with HPA; kueue-like; dragon; edragon; each also with "
    "notebooks that share GPUs as ours do (pool). "
)

EXPERIMENTS: Mapping[str, Experiment] = {
    "E1": Experiment(
        "The whole mix",
        "Poster: 2.39 times less total time. DynamoML: 60 % more throughput, 70 % less training time.",
        MIX + "Makespan is from the first wave to the end of the last training; of a fixed mix, trainings an hour are "
        "in inverse proportion to it. A claim is compared with the low end of the 95 % interval of the worst set.",
        STRONG,
    ),
    "E2": Experiment(
        "Training",
        "Poster: training 3.26 times faster. DynamoML: 70 % less training time.",
        "E1's mix, by makespan and mean completion time of the trainings. Beside it DRAGON's released manifests (12 "
        "trainings alike, 2 workers, elastic 1 to 4) in the same mix and alone on the 16 GPUs.",
        STRONG,
    ),
    "E3": Experiment(
        "Services",
        "DynamoML: (nearly) no SLA violation. Poster: shorter response times than Default+Scaling(2), (6) and "
        "Default+KubeShare.",
        "Late is a request that waits more than 0.1 s in the mix, on a trace one that takes longer than three times "
        "the p95 of service times; a minute is bad when more than 5 % of its requests are late. `slo`: ten traces, "
        "starts of 30, 90 and 300 s.",
        "In the mix all policies of E1, default+scaling(2) and (6), and native with the pool, which is "
        "Default+KubeShare. On traces HPA on CPU and on requests, Knative, KEDA, llm-d's law, static replicas chosen "
        "in hindsight.",
    ),
    "E4": Experiment(
        "Notebooks",
        "DynamoML: notebooks wait less, and their performance is kept.",
        "`notebooks`: real sessions of days 16 to 30 on 64 GPUs; the most users a GPU at which 95 % of the cells "
        "take at most 1.10 times as long as alone, all waits counted (docs/notebooks.md). In the mix: the p95 "
        "of cells.",
        "A whole GPU from creation to deletion; 1 to 8 time slices, culled never or after 10 to 60 minutes, and users "
        "who delete before long gaps; the rule's own parts. What is better than ours in the mix often has a "
        "whole GPU for each notebook.",
    ),
    "E5": Experiment(
        "Re-allocation of one training",
        "NEARCHUS: 71.4 to 129.1 % more speed.",
        "`nearchus`: every row of Gavel's tables and Pollux' T4 tables from a placement that a stock scheduler gives, "
        "at the same GPUs, to where the controller converges.",
        "The same training as it was placed.",
    ),
    "E6": Experiment(
        "Re-allocation in a cluster",
        "NEARCHUS: 35.6 % less completion time, 67.8 % less time in the queue.",
        "`nearchus`: 16 nodes with 4 T4, 25 workloads of Pollux and Sia; mean completion time and mean wait.",
        "FIFO with backfill, Tiresias, Optimus at 600 and 60 s, as deployed and idealised.",
    ),
    "E7": Experiment(
        "Use of the GPUs",
        "DRAGON: 20 to 30 points more of the GPUs' time used, 65 % less elapsed time.",
        "Of all GPUs' time, the part in which they compute: in E1's mix, and with trainings of 1, 2 or 4 workers that "
        "come at random at loads of .6, .9 and 1.2 of what others leave. Elapsed is from submission to end.",
        STRONG,
    ),
    "E8": Experiment(
        "Shares of one GPU",
        "KubeShare: twice the throughput. Gemini: under 5 % overhead, 20 to 30 % more than a static split.",
        "`tokens`: a model of a GPU's time, kernels of 50 us to 10 ms. On a real GPU it was not tried.",
        "A whole GPU each, a static split, plain time slices, Gemini's window rule.",
    ),
    "E9": Experiment(
        "Elastic trainings beside Sia",
        "Ours, beside the best published planner: mean completion time and p99 no longer.",
        "`sia`: Sia's own workloads on its default cluster of 6x4 T4, 3x8 RTX and 2x8 A100, in a simulator that is "
        "held against its own.",
        "Sia, re-coded and as published. Pollux, Gavel, Shockwave and Lucid are not re-coded.",
    ),
}

VIEWS: Mapping[str, View] = {
    "seeds": View("What DynamoML, NEARCHUS and the poster claim, reproduced", tuple(EXPERIMENTS)),
    "dynamoml": View("DynamoML's claims, reproduced", ("E1", "E3", "E4", "E8"), "DynamoML"),
    "poster": View("The poster's claims, reproduced", ("E2", "E3", "E7", "E4"), "poster"),
}
