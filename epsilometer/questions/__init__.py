"""The questions that can be asked of a release, a file each (contract: `epsilometer.auditing.question`)."""
