import Mimeo

await MimeoCommand.runAsProcess()
