"""What users do to plans: deploy, change, undeploy, sample."""
