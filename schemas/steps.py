"""Which annotations are training steps: the default patterns that recorder and pipelines share."""

STEP_PATTERNS = (
    r"ProfilerStep#\d+",
    r"(?:(?:train|training|trainer|global|fit)[ _./:-]*)?(?:step|iter|iteration|batch)[ _#:./-]*[\[(]?\d+[\])]?",
)

INFERRED_STEP = "inferred_step"
"""Name of the steps of windows without markers; no default pattern matches it."""

NO_STEPS_REASONS = ("no_launches", "too_few_launches", "no_period")
"""Why a window without markers has no inferred steps, from the least that is known to the most."""
