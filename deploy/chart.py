"""``make chart``: what the Helm chart ``deploy/helm/liqod`` has of an installation.

The templates are the manifests of ``liqod install --in-cluster``, made with words in the places
that values set; each word is then replaced by the expression that reads the value. What depends on
a switch is made with it and without it, and the template chooses. Beside these files the folder has
some that are written by hand: the values with their comments, helpers, and objects that only the
chart has.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from deploy import charthooks, chartschema
from liqod import __version__
from liqod.install import dnsserver, gateway, workload
from liqod.install.manifests import Manifest, Options, manifests, printable, render
from liqod.install.refusals import OLDEST
from liqod.resources.crdmanifests import crd_manifests

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "deploy" / "helm" / "liqod"
MADE: Final = "# Made by `make chart` from the manifests of `liqod install`.\n"
KEPT: Final = "helm.sh/resource-policy"
"""Annotation of what Helm leaves at the end: with definitions all objects go, with the namespace of
volumes what is in them, and that of `liqod node` would be ending yet when the next release comes. A
role that is summed up would be made anew by the cluster when its parts
go, and Helm would find it in the way of the next release."""
SUMMED: Final = "checksum/config"
"""Annotation of the daemon's pods: another configuration makes other pods."""

_NAMESPACE: Final = "word-of-the-namespace"
_CLUSTER: Final = "word-of-the-cluster"
_IMAGE: Final = "word-of-the-image"
_NODE_IMAGE: Final = "word-of-the-other-image"
_DNS_IMAGE: Final = "word-of-the-image-of-names"
_ARCHITECTURES: Final = "word-of-the-architectures"
_SERVER: Final = "word-of-the-server"
_CLUSTERSET: Final = "word-of-the-set"
_PRIORITY: Final = "word-of-the-priority"
_REPLICAS: Final = 104729
_OPTIONAL: Final = "word-of-what-is-optional-"
_FIELD: Final = "word-of-what-is-set-"
_SUM: Final = "word-of-the-sum"
_NODES_SUM: Final = "word-of-the-other-sum"
_PROXY: Final = "word-of-the-proxy"
PART: Final = "clusterset"
"""The part of the chart with the definition of ClusterProperties, and the value that chooses it."""
_PLACED: Final = ("imagePullSecrets", "nodeSelector", "tolerations")
"""Values of where the daemon's pods, and that of the Job, may run."""
_BASE: Final = Options(
    cluster_id=_CLUSTER,
    namespace=_NAMESPACE,
    in_cluster=True,
    image=_IMAGE,
    node_image=_NODE_IMAGE,
    replicas=_REPLICAS,
    server=_SERVER,
    dns_image=_DNS_IMAGE,
    architectures=(_ARCHITECTURES,),
)
SWITCHES: Final = {
    "network": ".Values.networking.enabled",
    "cluster_profiles": ".Values.clusterProfiles",
    "storage": ".Values.storage",
    "services": ".Values.services",
    "dns_server": ".Values.dnsServer.enabled",
}
"""Options that are true or false, each with the value that chooses."""
FILES: Final = {
    "CustomResourceDefinition": "definitions",
    "ValidatingAdmissionPolicy": "policies",
    "ValidatingAdmissionPolicyBinding": "policies",
    "Secret": "configuration",
    "Deployment": "daemon",
    "DaemonSet": "daemon",
    "PodDisruptionBudget": "daemon",
    "Service": "daemon",
}
"""Templates by the kind of what is in them; all others are ``installation``, but those of the DNS
server of the names of the set, which are ``dns``."""


def files() -> dict[str, str]:
    """The text of each file that is made, by its path in the chart."""
    templates: dict[str, str] = {}
    for manifest, text in _pieces():
        name = FILES.get(manifest["kind"], "installation")
        if manifest["metadata"]["name"] == dnsserver.NAME:
            name = "dns"
        name = f"templates/{name}.yaml"
        templates[name] = templates.get(name, MADE) + text
    return {
        "Chart.yaml": _about(),
        "values.schema.json": json.dumps(chartschema.schema(), indent=2) + "\n",
        "templates/rules.yaml": _rules(),
        "templates/uninstall.yaml": _departure(),
        **_properties(),
        "dashboard.json": (ROOT / "deploy" / "grafana-dashboard.json").read_text(),
        **templates,
    }


def _about() -> str:
    oldest = ".".join(map(str, OLDEST))
    about = {
        "apiVersion": "v2",
        "name": "liqod",
        "description": "One daemon that joins Kubernetes clusters peer to peer",
        "type": "application",
        "version": __version__,
        "appVersion": f"v{__version__}",
        "kubeVersion": f">={oldest}.0-0",
        "dependencies": [
            {"name": PART, "version": __version__, "condition": f"{PART}.enabled"},
        ],
    }
    return MADE + yaml.safe_dump(about, sort_keys=False)


def _properties() -> dict[str, str]:
    """The files of the ClusterProperties.

    Helm knows each kind of a release before it makes an object, so the definition is in the folder
    ``crds`` of a part: where that is chosen it is made first, and one that is there is left.
    """
    wanted = msgspec.structs.replace(_BASE, clusterset=_CLUSTERSET)
    [definition] = [
        each for each in manifests(wanted, []) if each["kind"] == "CustomResourceDefinition"
    ]
    made = [each for each in manifests(wanted, []) if each["kind"] == "ClusterProperty"]
    part = {
        "apiVersion": "v2",
        "name": PART,
        "description": "The kind ClusterProperty (about.k8s.io), where no other program has it",
        "version": __version__,
    }
    return {
        f"charts/{PART}/Chart.yaml": MADE + yaml.safe_dump(part, sort_keys=False),
        f"charts/{PART}/crds/clusterproperties.yaml": MADE + render([definition]),
        "templates/clusterset.yaml": MADE
        + _if(f".Values.{PART}.enabled", "".join(map(_template, made))),
    }


def _rules() -> str:
    """The alerts of ``deploy/monitoring.yaml``."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "monitoring.yaml").read_text())
    [rule] = [each for each in documents if each["kind"] == "PrometheusRule"]
    rule["metadata"]["namespace"] = _NAMESPACE
    return MADE + _if(".Values.monitoring.prometheusRule", _template(rule))


def _departure() -> str:
    """The Job that leaves all peers, on the nodes on which the daemon may run."""
    [daemon] = [
        each
        for each in _made(msgspec.structs.replace(_BASE, network=False)).values()
        if each["kind"] == "Deployment"
    ]
    made = charthooks.departure(_NAMESPACE, daemon["spec"]["template"]["spec"])
    fields = dict.fromkeys(f"{_OPTIONAL}{name}" for name in _PLACED)
    text = "".join(
        _template(_in_pods(each, fields) if each["kind"] == "Job" else each) for each in made
    )
    return MADE + _if(".Values.unpeerOnUninstall", text)


def _pieces() -> Iterable[tuple[Manifest, str]]:
    """Each object with its template, in the order in which they are applied."""
    every = msgspec.structs.replace(_BASE, **dict.fromkeys(SWITCHES, True))
    everything = _made(every)
    # All others stay on: what one switch brings is no other's.
    by_switch = {name: _made(msgspec.structs.replace(every, **{name: False})) for name in SWITCHES}
    for identity, manifest in everything.items():
        if manifest["kind"] == "Namespace" and manifest["metadata"]["name"] == _NAMESPACE:
            continue  # Helm makes it, or whoever runs Helm.
        text = _text(manifest)
        for name, off in by_switch.items():
            if identity not in off:
                text = _if(SWITCHES[name], text)
            elif manifest != off[identity] and manifest["kind"] != "Secret":
                text = _if(SWITCHES[name], text, _template(off[identity]))
        if manifest["kind"] == "PodDisruptionBudget":
            text = _if(".Values.podDisruptionBudget", text)
        yield manifest, text


def _made(options: Options) -> dict[tuple[str, str, str], Manifest]:
    """Manifests by kind, namespace and name."""
    made = {}
    for each in printable(options, crd_manifests()):
        metadata = each["metadata"]
        made[each["kind"], metadata.get("namespace", ""), metadata["name"]] = each
    return made


def _if(condition: str, text: str, otherwise: str = "") -> str:
    other = f"{{{{- else }}}}\n{otherwise}" if otherwise else ""
    return f"{{{{- if {condition} }}}}\n{text}{other}{{{{- end }}}}\n"


def _text(manifest: Manifest) -> str:
    if manifest["kind"] == "Secret":
        return _configured(manifest)
    if manifest["kind"] == "ConfigMap" and manifest["metadata"]["name"] == gateway.NODES:
        text = _template({key: value for key, value in manifest.items() if key != "data"})
        included = '{{ include "liqod.nodeConfiguration" . | quote }}'
        return f"{text}data:\n  {workload.CONFIG_FILE}: {included}\n"
    return _template(manifest)


def _configured(secret: Manifest) -> str:
    """The Secret of the configuration, whose text is made of values.

    It is in ``data``, in which Helm finds a key that is to go; ``stringData`` is never read back.
    """
    text = _template({key: value for key, value in secret.items() if key != "stringData"})
    return text + (
        "data:\n"
        f'  {workload.CONFIG_FILE}: {{{{ include "liqod.configuration" . | b64enc | quote }}}}\n'
        "  {{- if and .Values.apiServer.address .Values.apiServer.ca }}\n"
        f"  {workload.CA_FILE}: {{{{ .Values.apiServer.ca | b64enc | quote }}}}\n"
        "  {{- end }}\n"
    )


def _template(manifest: Manifest) -> str:
    """The template of one object."""
    if manifest["kind"] == "Deployment" and manifest["metadata"]["name"] != dnsserver.NAME:
        manifest = _settable(manifest)
    elif manifest["kind"] in ("Deployment", "DaemonSet"):
        manifest = _in_pods(manifest, {f"{_OPTIONAL}imagePullSecrets": None})
        if manifest["metadata"]["name"] == gateway.NODES:
            template = manifest["spec"]["template"]
            template["metadata"] = {**template["metadata"], _NODES_SUM: None}
            [container] = template["spec"]["containers"]
            env = [*container["env"], {"name": _PROXY}]
            template["spec"]["containers"] = [{**container, "env": env}]
    metadata = manifest["metadata"]
    if (
        manifest["kind"] in ("CustomResourceDefinition", "Namespace")
        or "aggregationRule" in manifest
    ):
        kept = {**metadata, "annotations": {**metadata["annotations"], KEPT: "keep"}}
        manifest = {**manifest, "metadata": kept}
    return _expressed(render([manifest]).replace("{{", '{{ "{{" }}'))


def _settable(deployment: Manifest) -> Manifest:
    """The Deployment with words in the places of its pods that values set."""
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    container = {key: value for key, value in container.items() if key != "resources"} | {
        f"{_FIELD}resources": None
    }
    changed = _in_pods(
        deployment,
        {
            "containers": [container],
            "priorityClassName": f"{_PRIORITY}-{pod['priorityClassName']}",
            **dict.fromkeys(f"{_OPTIONAL}{name}" for name in _PLACED if name not in pod),
            **dict.fromkeys(f"{_FIELD}{name}" for name in _PLACED if name in pod),
        },
    )
    template = changed["spec"]["template"]
    for name in _PLACED:
        template["spec"].pop(name, None)
    template["metadata"] = {**template["metadata"], _SUM: None}
    return changed


def _in_pods(manifest: Manifest, fields: dict[str, Any]) -> Manifest:
    spec = manifest["spec"]
    template = {**spec["template"], "spec": {**spec["template"]["spec"], **fields}}
    return {**manifest, "spec": {**spec, "template": template}}


def _expressed(text: str) -> str:
    """The template of a text: each word replaced by the expression that reads its value."""
    text = re.sub(rf"^( *)({_OPTIONAL}|{_FIELD})(\w+): null$", _nested, text, flags=re.M)
    text = re.sub(rf"^( *){_SUM}: null$", _sum, text, flags=re.M)
    text = re.sub(rf"^( *){_NODES_SUM}: null$", _nodes_sum, text, flags=re.M)
    text = re.sub(rf"^( *)- name: {_PROXY}$", _proxy, text, flags=re.M)
    for pattern, expression in _EXPRESSIONS:
        text = re.sub(pattern, expression, text, flags=re.M)
    return text


def _nested(found: re.Match[str]) -> str:
    """A field whose value is a map or a list; one that is optional is not there without it."""
    indent, word, name = found.groups()
    value = f"| nindent {len(indent) + 2} }}}}"
    if word == _FIELD:
        return f"{indent}{name}: {{{{- toYaml .Values.{name} {value}"
    return (
        f"{indent}{{{{- with .Values.{name} }}}}\n"
        f"{indent}{name}: {{{{- toYaml . {value}\n"
        f"{indent}{{{{- end }}}}"
    )


def _sum(found: re.Match[str]) -> str:
    """The annotation by which another configuration makes other pods."""
    indent = found[1]
    return (
        f"{indent}{{{{- if or .Values.config .Values.apiServer.ca }}}}\n"
        f"{indent}annotations:\n"
        f'{indent}  {SUMMED}: {{{{ print (include "liqod.configuration" .) .Values.apiServer.ca '
        "| sha256sum }}\n"
        f"{indent}{{{{- end }}}}"
    )


def _nodes_sum(found: re.Match[str]) -> str:
    """As :func:`_sum`, of the pods of ``liqod node``."""
    indent = found[1]
    return (
        f'{indent}{{{{- with include "liqod.nodeConfiguration" . }}}}\n'
        f"{indent}annotations:\n"
        f"{indent}  {SUMMED}: {{{{ . | sha256sum }}}}\n"
        f"{indent}{{{{- end }}}}"
    )


def _proxy(found: re.Match[str]) -> str:
    """The proxy of websockets, with its password, of a Secret beside the pods of ``liqod node``."""
    indent = found[1]
    lines = ["{{- with .Values.networking.proxySecret }}"]
    for key, optional in (("HTTPS_PROXY", "false"), ("NO_PROXY", "true")):
        lines += [
            f"- name: {key}",
            "  valueFrom:",
            "    secretKeyRef:",
            "      name: {{ . | quote }}",
            f"      key: {key}",
            f"      optional: {optional}",
        ]
    return "\n".join(indent + each for each in (*lines, "{{- end }}"))


_LISTED: Final = " ".join(f'"{each}"' for each in workload.ARCHITECTURES)
_EXPRESSIONS: Final[tuple[tuple[str, str], ...]] = (
    (rf"(:|-) {_NAMESPACE}$", r"\1 {{ .Release.Namespace | quote }}"),
    (_NAMESPACE, "{{ .Release.Namespace }}"),
    (_CLUSTERSET, "{{ .Values.clusterset.name | quote }}"),
    (_CLUSTER, "{{ .Values.clusterID | quote }}"),
    (_DNS_IMAGE, f'{{{{ .Values.dnsServer.image | default "{dnsserver.IMAGE}" | quote }}}}'),
    (_NODE_IMAGE, '{{ include "liqod.nodeImage" . | quote }}'),
    (_IMAGE, f'{{{{ .Values.image | default "{workload.IMAGE}" | quote }}}}'),
    (
        rf"values:\n *- {_ARCHITECTURES}$",
        f"values: {{{{ .Values.architectures | default (list {_LISTED}) | toJson }}}}",
    ),
    (str(_REPLICAS), "{{ .Values.replicas }}"),
    (
        rf"^( *)(- .*){_SERVER}$",
        r"\1{{- with .Values.apiServer.address }}\n\1\2{{ . }}\n\1{{- end }}",
    ),
    (rf"{_PRIORITY}-(.*)$", r'{{ .Values.priorityClassName | default "\1" | quote }}'),
)
"""Patterns, and the expressions that take their place."""


def main() -> None:
    """Write what is made into the chart's folder."""
    for name, text in files().items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{CHART.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
