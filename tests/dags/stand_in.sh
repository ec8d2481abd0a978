#!/bin/sh
# The lake's command line without the lake: notes how it was called, fails where FAIL is in that, ends with a line of JSON.
echo "$*" >> "$CALLS"
case "$*" in *"${FAIL:-nothing at all}"*) echo "a line before" >&2; echo "tracelake: no answer from the lake" >&2; exit 1;; esac
echo "a line of the log"
echo '{"windows": 3, "jobs": ["a"], "pages": ["job-a.html"], "unpublishable_count": 1, "unpublishable": [{"job_id": "a", "reasons": ["kernels: key"]}], "finding_count": 1, "findings": [{"job_id": "a", "title": "Rank 3 is slow", "lost_ratio": 0.25}]}'
