import QueryService

await QueryServiceCommand.runAsProcess()
