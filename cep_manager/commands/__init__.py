"""Commands of users on plans: deploy, change, undeploy, sample."""
