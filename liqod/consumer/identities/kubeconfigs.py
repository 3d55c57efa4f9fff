"""Makes a kubeconfig, and the Secret that holds it, of the access that a provider gave. Pure.

A provider chooses the address, the authority and the certificate that it gives; they are checked
before this cluster's key is used with them.
"""

from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

import msgspec

from liqod.apimachinery import labels
from liqod.consumer.identities.clusterkeys import ClusterKeys
from liqod.consumer.identities.providerpinning import kubeconfig_of
from liqod.errors import ConfigError, ProtocolError
from liqod.identity import certificates, keys
from liqod.kube.credentials.credentials import check_url
from liqod.model import ids
from liqod.resources.authentication import CONTROL_PLANE, AuthParams, Identity


def problem_of(given: AuthParams, own_public: bytes) -> str | None:
    """The defect of an access to a provider, in one sentence; None if it can be used."""
    if given.aws_config is not None:
        return "the provider gives AWS credentials, which are not supported"
    try:
        check_url(given.api_server, "the provider's apiServer")
    except ConfigError as error:
        return str(error)
    if urlsplit(given.api_server).scheme != "https":
        return "the provider's apiServer is no https:// URL"
    if not given.signed_crt:
        return "the provider has not given a certificate yet"
    try:
        facts = certificates.read(given.signed_crt)
        if not keys.same_public(facts.public_key, own_public):
            return "the provider's certificate is not for this cluster's key"
        if given.ca:
            certificates.read(given.ca)
    except ProtocolError as error:
        return f"the provider's certificate cannot be used: {error}"
    return None


def secret_of(identity: Identity, own: ClusterKeys) -> dict[str, Any]:
    """The kubeconfig Secret of an Identity.

    It has no owner reference: it must outlive its Identity for as long as there is something to
    remove at the provider, or a virtual node to drain.
    """
    given = identity.spec.auth_params
    metadata: dict[str, Any] = {
        "name": ids.kubeconfig_secret(identity.name),
        "namespace": identity.namespace,
        "labels": {
            labels.MANAGED: labels.TRUE,
            labels.MANAGED_BY_LIQOD: labels.TRUE,
            labels.IDENTITY_TYPE: identity.spec.type,
            labels.REMOTE_CLUSTER_ID: identity.spec.cluster_id,
        },
    }
    if identity.spec.type == CONTROL_PLANE:
        metadata["annotations"] = {labels.REMOTE_TENANT_NAMESPACE: identity.spec.namespace}
    else:
        metadata["labels"][labels.RESOURCE_SLICE_NAME] = identity.metadata.labels.get(
            labels.RESOURCE_SLICE_NAME, identity.name.removeprefix(ids.slice_identity(""))
        )
    data = kubeconfig_of(identity, given, own)
    return {
        "metadata": metadata,
        "type": "Opaque",
        "data": {labels.KUBECONFIG_FIELD: b64encode(data).decode()},
    }


def same_place(one: AuthParams, other: AuthParams) -> bool:
    """True if two accesses lead to the same place."""
    return (one.api_server, one.ca, one.proxy_url) == (other.api_server, other.ca, other.proxy_url)


def is_newer(offered: AuthParams, present: AuthParams) -> bool:
    """True if an offered access is to replace the present one.

    It is if its certificate ends later, or is for another name and no older, or if the address, the
    authority or the proxy differs.
    An older certificate is not, be it late on its way or of the place where the peer was before it
    was made anew and peered with again.
    """
    if not present.signed_crt:
        return True
    try:
        old = certificates.read(present.signed_crt)
    except ProtocolError:
        return True
    new = certificates.read(offered.signed_crt)
    if not same_place(offered, present):
        return new.not_before >= old.not_before
    renamed = new.common_name != old.common_name and new.not_before >= old.not_before
    return renamed or new.not_after > old.not_after


def auth_patch(offered: AuthParams) -> dict[str, Any]:
    """The merge patch value that makes an ``authParams`` exactly this."""
    wanted: dict[str, Any] = dict.fromkeys(msgspec.structs.asdict(AuthParams()))
    names = {field.name: field.encode_name for field in msgspec.structs.fields(AuthParams)}
    values: dict[str, Any] = msgspec.to_builtins(offered)
    return {encoded: values.get(encoded) for encoded in (names[name] for name in wanted)}
