"""The manifests for Kubernetes: valid by its schemas, and in accord with the services' options, ports and image."""

import re
import subprocess
import unittest

from mimeo_harness import ROOT, use_packages
from system_test import SystemTest

FOLDER = ROOT / "deploy" / "kubernetes"
PORTS = {"auth-gateway": 4001, "replicator": 4002, "query-service": 4003, "attachment-store": 4004}
VALIDATOR = (
    "attrs==26.1.0", "importlib_resources==7.1.0", "jsonschema==4.26.0", "jsonschema-specifications==2025.9.1",
    "kubernetes-validate==1.37.0", "packaging==26.4", "PyYAML==6.0.4", "referencing==0.37.0", "rpds-py==2026.9.1",
    "typing_extensions==4.16.0")
VERSIONS = ("1.29", "1.33", "1.37")
"""Of Kubernetes; Docs/support.md names the first one."""


class Kubernetes(SystemTest):
    @classmethod
    def setUpClass(cls):
        try:
            use_packages(*VALIDATOR)
        except RuntimeError as problem:
            raise unittest.SkipTest(f"the validator cannot be installed: {problem}") from problem
        import yaml

        cls.resources = [
            (path, resource) for path in sorted(FOLDER.rglob("*.yaml"))
            for resource in yaml.safe_load_all(path.read_text())]

    def of_kind(self, kind):
        return {resource["metadata"]["name"]: resource for _, resource in self.resources if resource["kind"] == kind}

    def pods(self):
        """The templates of all pods, by name."""
        found = {name: resource["spec"]["template"] for name, resource in self.of_kind("Deployment").items()}
        found |= {name: resource["spec"]["template"] for name, resource in self.of_kind("Job").items()}
        jobs = self.of_kind("CronJob").items()
        return found | {name: resource["spec"]["jobTemplate"]["spec"]["template"] for name, resource in jobs}

    def test_every_manifest_is_valid_for_old_and_new_versions(self):
        import kubernetes_validate

        self.assertEqual(len(self.resources), 16)
        for version in VERSIONS:
            for path, resource in self.resources:
                with self.subTest(path=path.name, kind=resource["kind"], version=version):
                    kubernetes_validate.validate(resource, version, strict=True)

    def test_the_validator_finds_a_misspelt_member(self):
        import kubernetes_validate

        resource = {**self.of_kind("ConfigMap")["mimeo"], "datta": {}}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(resource, VERSIONS[-1], strict=True)

    def test_every_service_has_probes_a_budget_and_time_to_stop(self):
        settings = self.of_kind("ConfigMap")["mimeo"]["data"]
        budgets, addresses = self.of_kind("PodDisruptionBudget"), self.of_kind("Service")
        deployments = self.of_kind("Deployment")
        self.assertEqual(set(deployments), {f"mimeo-{name}" for name in PORTS})
        for name, port in PORTS.items():
            deployment = deployments[f"mimeo-{name}"]["spec"]
            labels = deployment["template"]["metadata"]["labels"]
            self.assertEqual(deployment["selector"]["matchLabels"], labels)
            self.assertEqual(budgets[f"mimeo-{name}"]["spec"]["selector"]["matchLabels"], labels)
            self.assertEqual(addresses[f"mimeo-{name}"]["spec"]["selector"], labels)
            self.assertEqual(addresses[f"mimeo-{name}"]["spec"]["ports"][0]["port"], port)
            (container,) = deployment["template"]["spec"]["containers"]
            self.assertEqual(container["command"], [name])
            self.assertEqual(container["args"], [f"--listen=0.0.0.0:{port}"])
            self.assertEqual(container["ports"][0]["containerPort"], port)
            probes = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")]
            self.assertEqual(probes, ["/health/live", "/health/live", "/health/ready"])
            patience = deployment["template"]["spec"]["terminationGracePeriodSeconds"]
            stop = int(settings["MIMEO_DRAIN_SECONDS"]) + int(settings["MIMEO_STOP_SECONDS"])
            self.assertGreater(patience, stop, name)
            # The readiness fails, and traffic ends, before the service listens no more.
            ready = container["readinessProbe"]
            self.assertGreater(
                int(settings["MIMEO_DRAIN_SECONDS"]), ready["periodSeconds"] * ready["failureThreshold"], name)

    def test_pods_run_as_nobody_in_particular_and_take_no_variables_of_others(self):
        for name, template in self.pods().items():
            pod = template["spec"]
            self.assertIs(pod["enableServiceLinks"], False, name)
            self.assertIs(pod["automountServiceAccountToken"], False, name)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"], name)
            self.assertEqual(pod["securityContext"]["runAsUser"], 10001, name)
            (container,) = pod["containers"]
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"], name)
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]}, name)

    def test_secrets_are_referred_to_and_every_one_is_explained(self):
        self.assertEqual(self.of_kind("Secret"), {})
        page = (FOLDER / "README.md").read_text()
        for name, template in self.pods().items():
            pod = template["spec"]
            keys = {variable["valueFrom"]["secretKeyRef"]["key"] for variable in pod["containers"][0]["env"]}
            keys |= {item["key"] for volume in pod["volumes"] for item in volume.get("secret", {}).get("items", ())}
            for key in keys:
                self.assertRegex(page, rf"--from-literal={key}=", name)

    def test_settings_and_flags_are_options_of_the_programs(self):
        options = (ROOT / "Docs" / "Options.md").read_text()
        names = set(self.of_kind("ConfigMap")["mimeo"]["data"])
        for template in self.pods().values():
            names |= {variable["name"] for variable in template["spec"]["containers"][0]["env"]}
        for name in names:
            self.assertTrue(name.startswith("BACKUP_") or f"`{name}`" in options, name)
        for name in ("mimeo-backup", "mimeo-restore"):
            (script,) = self.pods()[name]["spec"]["containers"][0]["args"]
            subprocess.run(["bash", "-n", "-c", script], check=True)
            commands = re.findall(r"^.*?(mimeo (?:backup \w+|restore)\b.*)", re.sub(r"\\\n", "", script), re.MULTILINE)
            self.assertTrue(commands, name)
            for command in commands:
                words = " ".join(re.match(r"mimeo (backup \w+|restore)", command)[0].split())
                for flag in re.findall(r" (--[a-z-]+)", command):
                    known = re.search(rf"\| `{words}` \| `{flag}\b", options)
                    shared = re.search(rf"^## .*`{words}`.*\n(?:(?!## ).*\n)*?\| `{flag}\b", options, re.MULTILINE)
                    self.assertTrue(known or shared, f"{command}: {flag}")

    def test_one_origin_leads_where_the_front_of_compose_does(self):
        (rule,) = self.of_kind("Ingress")["mimeo"]["spec"]["rules"]
        paths = [(path["path"], path["backend"]["service"]) for path in rule["http"]["paths"]]
        for path, service in paths:
            self.assertEqual(PORTS[service["name"].removeprefix("mimeo-")], service["port"]["number"], path)
        ways = {path: service["name"].removeprefix("mimeo-") for path, service in paths}
        # What is not named goes to the query-service, as `location /` of compose/nginx.conf.
        self.assertEqual(ways, {
            "/_ditto/auth": "auth-gateway", "/_ditto/sync": "replicator",
            "/api/v4/attachments": "attachment-store", "/api/v5/attachments": "attachment-store",
            "/admin/auth": "auth-gateway", "/admin/auth-gateway": "auth-gateway",
            "/admin/replicator": "replicator", "/admin/attachment-store": "attachment-store", "/": "query-service"})
