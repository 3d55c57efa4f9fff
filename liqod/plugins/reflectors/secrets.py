"""Secrets look the same at a peer.

A long-lived service-account token stays here, as it does with Liqo where tokens are requested:
it would hand this cluster's rights to the peer. One that is annotated ``liqo.io/allow-reflection``
goes as a plain Secret, since the account it names is not the peer's.
"""

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.model import ids
from liqod.model.crossing.annotations import bool_value
from liqod.plugins.contracts import (
    NOTHING,
    READ,
    AdmissionPolicy,
    Grant,
    Json,
    Plan,
    Reflector,
    RemoteKind,
    Right,
    Validation,
    View,
)
from liqod.plugins.crossing import manifest
from liqod.plugins.hookspecs import hookimpl

TOKEN_TYPE = "kubernetes.io/service-account-token"
ACCOUNT = "kubernetes.io/service-account.name"
"""Annotation that such a Secret names its account with (core/v1 ``ServiceAccountNameKey``)."""
ACCOUNT_UID = "kubernetes.io/service-account.uid"
OPAQUE = "Opaque"


def outgoing(secret: Json, view: View) -> Plan:
    """The same data over there."""
    is_token = secret.get("type") == TOKEN_TYPE
    notes = secret["metadata"].get("annotations") or {}
    if is_token and bool_value(notes, labels.ALLOW_REFLECTION) is not True:
        return NOTHING
    fields = ("data", "immutable", "type")
    content = {field: secret[field] for field in fields if field in secret}
    remote = manifest(SECRETS, secret["metadata"]["name"], secret, view, **content)
    if is_token:
        remote["type"] = OPAQUE
        notes = remote["metadata"]["annotations"]
        account = notes.pop(ACCOUNT, "")
        notes.pop(ACCOUNT_UID, None)
        if 0 < len(account) <= ids.LABEL_LIMIT:
            remote["metadata"]["labels"][labels.SERVICE_ACCOUNT_NAME] = account
    return Plan(remote=(remote,))


REFLECTOR = Reflector(
    name="secrets",
    kind=SECRETS,
    outgoing=outgoing,
    remote=(RemoteKind(kind=SECRETS),),
    rights=(
        Right(
            group="",
            resources=("secrets",),
            verbs=READ,
            why="Secrets of offloaded namespaces are reflected",
        ),
    ),
    grant=Grant(
        quota={"count/secrets": "2000"},
        policy=AdmissionPolicy(
            name="secrets",
            operations=("CREATE",),
            validations=(
                Validation(
                    f"object.?type.orValue('') != '{TOKEN_TYPE}'",
                    "a consumer may not ask for the token of a ServiceAccount",
                ),
            ),
        ),
    ),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """Secrets."""
    return [REFLECTOR]
