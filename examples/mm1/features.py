"""The columns of an observation: of a candidate row, and of the whole queue."""

from slipstream.families.shared.features import Feature, FeatureTable

CANDIDATE = FeatureTable(
    (
        Feature("dispatch", "flag", "1 if the row starts the job that came first", 0, 1),
        Feature("service", "10 s", "mean service time of the row", 0, 100, 1e-10),
        Feature("energy", "10 J", "energy that the row takes", 0, 100, 0.1),
    )
)
GLOBAL = FeatureTable((Feature("waiting", "jobs / 10", "jobs that wait to be served", 0, 100, 0.1),))
DISPATCH, SERVICE, ENERGY = range(3)
WAITING = 0
