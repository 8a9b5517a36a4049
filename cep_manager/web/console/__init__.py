"""The console: pages that show plans, topologies and the cluster, and deploy and undeploy plans."""
