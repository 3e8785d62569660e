"""The bill of materials, in CycloneDX's JSON: everything that is linked into the program or carried beside it."""

import datetime
import json
import uuid

import licences
import within
from source import commit, vendored

SPEC = "1.5"

DEBIAN_LICENCES = {"libsqlite3-0": "blessing", "zlib1g": "Zlib"}
"""Debian's own descriptions of licences have no identifiers; these two are asked for most."""


def _component(kind, name, version, purl, licence=None, carried=(), reference=None):
    made = {"type": kind, "bom-ref": reference or purl, "name": name, "version": version, "purl": purl}
    if licence:
        made["licenses"] = [{"expression": licence} if " " in licence else {"license": {"id": licence}}]
    if carried:
        made["properties"] = [{"name": "mimeo:carriedBy", "value": artifact} for artifact in carried]
    return made


def _swift_package(package):
    place = package.location.removeprefix("https://")
    made = _component("library", package.name, package.version, f"pkg:swift/{place}@{package.version}",
                      licences.spdx(package.licences()))
    made["externalReferences"] = [{"type": "vcs", "url": package.location, "comment": package.revision}]
    return made


def bill(version, epoch, swift, packages, libraries, image_packages, architecture):
    """`libraries` are the Debian packages in the tarball, `image_packages` those that only the image has."""
    main = f"pkg:generic/mimeo@{version}"
    components = [_swift_package(package) for package in packages]
    components.append(_component(
        "library", "swift-runtime", swift, f"pkg:generic/swift@{swift}", "Apache-2.0 WITH Swift-exception"))
    # Two packages may have the same revision of a library.
    components += [_component("library", copy.name, copy.version, copy.purl, copy.licence,
                              reference=f"{copy.holder}#{copy.name}") | {
                       "properties": [{"name": "mimeo:within", "value": copy.holder}]}
                   for copy in within.copies(packages)]
    components += [_component("library", name.lower(), number, f"pkg:npm/{name.lower()}@{number}", licence)
                   for name, number, licence in vendored()]
    for carried, group in ((("tarball", "image"), libraries), (("image",), image_packages)):
        components += [_component(
            "library", package.name, package.version,
            f"pkg:deb/debian/{package.name}@{package.version}?arch={architecture}", DEBIAN_LICENCES.get(package.name), carried)
            for package in group]
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    made = {
        "bomFormat": "CycloneDX", "specVersion": SPEC, "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{main}#{commit()}')}",
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": main, "name": "mimeo", "version": version, "purl": main,
                          "licenses": [{"license": {"id": "Apache-2.0"}}]},
            "properties": [{"name": "mimeo:commit", "value": commit()}],
        },
        "components": components,
        "dependencies": [{"ref": main, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return (json.dumps(made, indent=2) + "\n").encode()
