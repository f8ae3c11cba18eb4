"""The questions that can be asked about a release, one file each (contract: `epsilometer.auditing.question`)."""
