import AttachmentStore

await AttachmentStoreCommand.runAsProcess()
