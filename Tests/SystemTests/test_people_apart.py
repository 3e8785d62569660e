"""The five minutes of a team of three against the four services as processes of their own, on PostgreSQL and behind nginx;
and two gateways, which count the failures of a guesser together."""

import test_people
from mimeo_harness import FourProcesses, Postgres, until


class Apart(test_people.Team):
    """All that a team does, with nothing but the log in common."""

    seconds = 400

    def started(self):
        self.postgres = Postgres(self.workspace).start()
        return FourProcesses(self.workspace, log=self.postgres.url).start()


class TwoGateways(test_people.PeopleTest):
    seconds = 300

    def started(self):
        server = FourProcesses(self.workspace)
        server.fronts["auth-gateway"] = [server.address_of("auth-gateway"), server.address_of("auth-gateway-2")]
        server.start()
        server.start_service("auth-gateway", "auth-gateway-2")
        until(lambda: self.answers(server), 60, "the second gateway is not healthy")
        return server

    @staticmethod
    def answers(server):
        try:
            return server.client_of("auth-gateway-2").request("GET", "/health", seconds=5).status == 200
        except OSError:
            return False

    def test_a_guesser_has_as_many_tries_at_two_gateways_as_at_one(self):
        self.admin("accounts", "create", "--provider", "staff", "--name", "ann", "--password", test_people.PASSWORD)
        body = {"databaseID": "fleet", "provider": "staff", "token": "ann:a guess"}
        gateways = [self.server.client_of(label) for label in ("auth-gateway", "auth-gateway-2")]

        def guess(gateway, origin, password="a guess"):
            token = {**body, "token": f"ann:{password}"}
            return gateway.request("POST", "/_ditto/auth/login", token, {"X-Forwarded-For": origin})

        # In turn at the two, with time for each failure to be told.
        tries = 0
        while (answer := guess(gateways[tries % 2], "10.0.0.1")).error["code"] == "AUTH-0404":
            tries += 1
            self.assertLess(tries, 20, "nobody counts")
        self.assertEqual(answer.error["code"], "AUTH-0414")
        self.assertIn("Retry-After", answer.headers)
        # Some at the other one, of the last second, may have come on top.
        self.assertGreaterEqual(tries, 10)
        for gateway in gateways:
            until(lambda at=gateway: guess(at, "10.0.0.1").error["code"] == "AUTH-0414", 30, "the other one does not know")
            self.assertEqual(guess(gateway, "10.0.0.1", test_people.PASSWORD).status, 429)
            # Nobody else has to wait.
            self.assertEqual(guess(gateway, "10.0.0.2", test_people.PASSWORD).status, 200)
        # A restart forgets nothing.
        self.server.processes["auth-gateway-2"].kill()
        self.server.start_service("auth-gateway", "auth-gateway-2")
        until(lambda: self.answers(self.server), 60, "the second gateway does not come back")
        self.assertEqual(guess(gateways[1], "10.0.0.1", test_people.PASSWORD).status, 429)
