"""A bucket for attachments: moto's S3 server, a process of its own, which checks the signature of every request."""

import json
import sys

from .packages import packages_folder, use_packages
from .processes import free_port
from .until import until

PINS = (
    "moto==5.2.5", "boto3==1.44.8", "botocore==1.44.8", "cryptography==50.0.2", "Flask==3.1.3", "flask-cors==6.0.5",
    "Jinja2==3.1.6", "py-partiql-parser==0.6.3", "python-dateutil==2.9.0.post0", "PyYAML==6.0.4", "requests==2.34.2",
    "responses==0.26.3", "s3transfer==0.19.3", "urllib3==2.8.0", "Werkzeug==3.1.9", "xmltodict==1.0.4")
"""moto for S3 alone, and what it needs; installed from PyPI like the other packages of tests."""

OPEN_ACTIONS = 4
"""The actions that set the bucket up. After them every request has to be signed."""


class Bucket:
    """`url` and `credentials` (a file) are what `--attachment-bucket` needs. Its objects are in its memory."""

    name = "blobs"

    def __init__(self, workspace):
        use_packages(*PINS)
        import boto3
        from botocore.config import Config
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)
        origin = f"http://127.0.0.1:{self.port}"
        self.process = workspace.start(
            "bucket", [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", self.port],
            {"PYTHONPATH": str(packages_folder(PINS)), "INITIAL_NO_AUTH_ACTION_COUNT": str(OPEN_ACTIONS)})
        import requests

        def answers():
            try:
                return requests.get(f"{origin}/moto-api/", timeout=5).status_code < 500
            except requests.RequestException:
                return False

        until(answers, 60, lambda: f"moto does not answer\n{self.process.log_tail()}")

        def client(service, key, secret):
            return boto3.client(
                service, endpoint_url=origin, region_name="us-east-1", aws_access_key_id=key,
                aws_secret_access_key=secret, config=Config(s3={"addressing_style": "path"}))

        client("s3", "setup", "setup").create_bucket(Bucket=self.name)
        accounts = client("iam", "setup", "setup")
        accounts.create_user(UserName="mimeo")
        rights = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        accounts.put_user_policy(UserName="mimeo", PolicyName="all", PolicyDocument=json.dumps(rights))
        key = accounts.create_access_key(UserName="mimeo")["AccessKey"]
        self.client = client("s3", key["AccessKeyId"], key["SecretAccessKey"])
        self.credentials = workspace.directory / "bucket.credentials"
        self.credentials.write_text(f"{key['AccessKeyId']}\n{key['SecretAccessKey']}\n")
        self.credentials.chmod(0o600)

    def arguments(self, origin=None, prefix="some/where"):
        """The options of a server; `origin` for one that reaches the bucket through a proxy."""
        origin = origin or f"http://127.0.0.1:{self.port}"
        return ["--attachment-bucket", f"{origin}/{self.name}/{prefix}", "--attachment-bucket-credentials",
                str(self.credentials)]

    @property
    def keys(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    @property
    def unfinished(self):
        return self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])

    def read(self, key):
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def write(self, key, content):
        self.client.put_object(Bucket=self.name, Key=key, Body=content)
