"""Which annotations are training steps: the default patterns that recorder and pipelines share."""

STEP_PATTERNS = (
    r"ProfilerStep#\d+",
    r"(?:(?:train|training|trainer|global|fit)[ _./:-]*)?(?:step|iter|iteration|batch)[ _#:./-]*[\[(]?\d+[\])]?",
)
