import Replicator

await ReplicatorCommand.runAsProcess()
