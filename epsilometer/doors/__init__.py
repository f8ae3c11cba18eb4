"""The ways to ask a question, one file each. Each way takes the evidence of any question (`auditing.question`)."""
