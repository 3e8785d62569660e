import AuthGateway

await AuthGatewayCommand.runAsProcess()
