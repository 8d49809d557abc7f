"""What each client of Cloud TPU needs in its environment to call this control plane. Tables, by client."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit


class ClientKind(StrEnum):
    GCLOUD = "gcloud"
    PYTHON = "python"
    TERRAFORM = "terraform"
    SKYPILOT = "skypilot"


@dataclass(frozen=True)
class Proxy:
    """Where it is, and the certificate of the authority that vouches for it."""

    url: str
    certificate: Path


@dataclass(frozen=True)
class Place:
    """``certificate`` is the control plane's own, if it is served over TLS; ``credentials`` a file as Google has it."""

    url: str
    project: str
    zone: str
    token_file: Path
    credentials: Path
    certificate: Path | None = None
    proxy: Proxy | None = None


def environment(client: ClientKind, place: Place) -> dict[str, str]:
    """Variables by name. The token itself is in files only, but for Terraform's, which knows no other way."""
    match client:
        case ClientKind.GCLOUD:
            return _gcloud(place)
        case ClientKind.TERRAFORM:
            return _terraform(place) | _proxied(place)
    own = {"GOOGLE_CLOUD_PROJECT": place.project, "TPU_API_DISCOVERY_URL": f"{place.url}/$discovery/rest?version=v1"}
    credentials = {"GOOGLE_APPLICATION_CREDENTIALS": str(place.credentials)} if place.proxy else {}
    return own | credentials | _proxied(place)


def _gcloud(place: Place) -> dict[str, str]:
    found = {
        "CLOUDSDK_CORE_PROJECT": place.project,
        "CLOUDSDK_COMPUTE_ZONE": place.zone,
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(place.token_file),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }
    if place.proxy:
        address = urlsplit(place.proxy.url)
        return (
            found
            | {
                "CLOUDSDK_PROXY_TYPE": "http",
                "CLOUDSDK_PROXY_ADDRESS": address.hostname or "",
                "CLOUDSDK_PROXY_PORT": str(address.port),
            }
            | _trusted(place.proxy.certificate)
        )
    trusted = _trusted(place.certificate) if place.certificate else {}
    return (
        found
        | trusted
        | {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{place.url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{place.url}/compute/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{place.url}/",
        }
    )


def _trusted(certificate: Path) -> dict[str, str]:
    """Twice, since REQUESTS_CA_BUNDLE goes before gcloud's own where it is set."""
    return dict.fromkeys(("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "REQUESTS_CA_BUNDLE"), str(certificate))


def _terraform(place: Place) -> dict[str, str]:
    return {
        "GOOGLE_PROJECT": place.project,
        "GOOGLE_ZONE": place.zone,
        "GOOGLE_TPU_CUSTOM_ENDPOINT": f"{place.url}/v1/",
        "GOOGLE_TPU_V2_CUSTOM_ENDPOINT": f"{place.url}/v2/",
        "GOOGLE_OAUTH_ACCESS_TOKEN": place.token_file.read_text().strip(),
    }


def _proxied(place: Place) -> dict[str, str]:
    if place.proxy is None:
        return {}
    authority = dict.fromkeys(
        ("HTTPLIB2_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
        str(place.proxy.certificate),
    )
    around = {"HTTPS_PROXY": place.proxy.url, "https_proxy": place.proxy.url, "NO_PROXY": "localhost,127.0.0.1"}
    return around | authority
