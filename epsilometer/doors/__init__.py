"""The ways to ask a question, a file each. Each takes the evidence of any question (`auditing.question`)."""
