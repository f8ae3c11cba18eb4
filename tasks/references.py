"""What models like those of a training say of its texts, which membership attacks compare with."""

from epsilometer.pipeline.flows.reproduce import stage

references = stage("references")
