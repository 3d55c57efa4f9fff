"""One identity that a peer gave this cluster, as a value, and the Secret that it is read from."""

import time

import msgspec

from liqod.apimachinery import labels
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.model import ids
from liqod.model.objects.partial import Secret


class KubeconfigSecret(Secret, frozen=True):
    """A Secret that may hold a kubeconfig."""

    @property
    def type(self) -> str:
        """``ControlPlane``, ``ResourceSlice``, or empty where it is no identity's."""
        return self.metadata.labels.get(labels.IDENTITY_TYPE, "")

    @property
    def kubeconfig(self) -> bytes:
        """The kubeconfig; empty if there is none."""
        return self.value(labels.KUBECONFIG_FIELD)

    @property
    def slice(self) -> str:
        """Name of the slice that the identity belongs to; empty for the control plane's."""
        if self.type != labels.RESOURCE_SLICE:
            return ""
        named = self.metadata.labels.get(labels.RESOURCE_SLICE_NAME)
        return named or self.metadata.name.removeprefix(
            ids.kubeconfig_secret(ids.slice_identity(""))
        )


class Remote(msgspec.Struct, frozen=True):
    """One identity at the peer.

    Attributes:
        client: a client with it.
        credentials: those of the client.
        namespace: this cluster's tenant namespace at the peer.
        user: the user that the certificate names; empty for tokens.
        expires: epoch second at which the certificate ends; 0 for tokens.
        secret: name of the Secret.
        slice: name of the slice; empty for the control plane.
    """

    client: Client
    credentials: Credentials
    namespace: str
    user: str
    expires: float
    secret: str
    slice: str = ""

    @property
    def expired(self) -> bool:
        """True if the certificate has expired."""
        return 0 < self.expires < time.time()
