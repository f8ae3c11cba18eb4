"""Every claim against its worst case over a vocabulary, and plausible deniability."""

from epsilometer.pipeline.flows.reproduce import stage

claims = stage("claims")
