"""Tokens, roles, and what the clients' other services answer, over HTTP."""

from __future__ import annotations

import sqlite3
from typing import Any

import httpx
import pytest

from tpuctl.api.access import Role
from tpuctl.control.access import role_for
from tpuctl.control.plane import ControlPlane
from tpuctl.server.methods import METHODS
from tpuctl.server.permissions import permission_of

TOKENS = "/tpuctl/v1/tokens"


def nodes(project: str) -> str:
    return f"/v2/projects/{project}/locations/us-central2-b/nodes"


def as_(http: httpx.Client, token: str | None) -> httpx.Client:
    headers = {"authorization": f"Bearer {token}"} if token is not None else {}
    return httpx.Client(base_url=http.base_url, headers=headers)


def give(http: httpx.Client, **roles: str) -> dict[str, Any]:
    made: dict[str, Any] = http.post(TOKENS, json={"principal": "ada", "roles": roles}).raise_for_status().json()
    return made


def test_a_viewer_looks_but_changes_nothing(http: httpx.Client) -> None:
    with as_(http, give(http, p="viewer")["token"]) as ada:
        assert ada.get(nodes("p")).status_code == 200
        refused = ada.post(f"{nodes('p')}?nodeId=n", json={"acceleratorType": "v2-8"})
    error = refused.json()["error"]
    assert (refused.status_code, error["status"]) == (403, "PERMISSION_DENIED")
    assert error["message"] == (
        "Permission 'tpu.nodes.create' denied on resource "
        "'//tpu.googleapis.com/projects/p/locations/us-central2-b' (or it may not exist)."
    )
    assert error["details"][0]["reason"] == "IAM_PERMISSION_DENIED"


@pytest.mark.parametrize("role", list(Role))
def test_a_project_is_invisible_to_who_has_no_role_on_it(http: httpx.Client, role: Role) -> None:
    with as_(http, give(http, p=role)["token"]) as ada:
        there = ada.get(f"{nodes('local')}/anything")
        assert there.status_code == 403
        assert "'//tpu.googleapis.com/projects/local/locations/us-central2-b/nodes/anything'" in there.text
        for path in ("/tpuctl/v1/projects/local/jobs", "/tpuctl/v1/status?project=local", "/tpuctl/v1/status"):
            assert ada.get(path).status_code == 403, path
        for path in ("/compute/v1/projects/local", "/v1/projects/local", "/v3/projects/local"):
            assert ada.get(path).status_code == 403, path
        assert ada.get("/tpuctl/v1/status?project=p").status_code == 200
        wanted = {"permissions": ["tpu.nodes.list"]}
        assert ada.post("/v1/projects/local:testIamPermissions", json=wanted).json() == {}
        assert ada.post("/v1/projects/p:testIamPermissions", json=wanted).json() == wanted


def test_an_admin_of_one_project_governs_nothing(http: httpx.Client) -> None:
    with as_(http, give(http, p="admin")["token"]) as ada:
        assert ada.post(TOKENS, json={"principal": "eve", "roles": {"*": "admin"}}).status_code == 403
        assert ada.get(TOKENS).status_code == 403
        assert ada.post("/tpuctl/v1/faults", json={"kind": "stockout"}).status_code == 403


def test_a_revoked_token_is_refused_at_once(http: httpx.Client) -> None:
    made = give(http, p="user")
    with as_(http, made["token"]) as ada:
        assert ada.get(nodes("p")).status_code == 200
        assert http.delete(f"{TOKENS}/{made['id']}").status_code == 200
        assert ada.get(nodes("p")).status_code == 401
    assert http.delete(f"{TOKENS}/{made['id']}").status_code == 404


def test_a_token_is_kept_as_a_digest_only_and_known_after_a_restart(http: httpx.Client, plane: ControlPlane) -> None:
    made = give(http, p="user")
    assert http.get(TOKENS).json()["tokens"] == [{key: value for key, value in made.items() if key != "token"}]
    with sqlite3.connect(plane.home.database) as connection:
        assert made["token"] not in "\n".join(connection.iterdump())
    connection.close()
    from tpuctl.control.access import Access

    assert Access(plane.store, "").caller(f"Bearer {made['token']}").name == "ada"


@pytest.mark.parametrize(
    ("principal", "roles"),
    [("", {"p": "user"}), ("a b", {"p": "user"}), ("ada", {}), ("ada", {"p": "king"}), ("ada", {"no project": "user"})],
)
def test_a_token_that_says_nothing_sensible_is_refused(http: httpx.Client, principal: str, roles: Any) -> None:
    assert http.post(TOKENS, json={"principal": principal, "roles": roles}).status_code == 400
    assert not http.get(TOKENS).json().get("tokens")


@pytest.mark.parametrize("given", ["x", "wrong wrong", "tpuctl_", None])
def test_who_is_not_known_is_refused(http: httpx.Client, given: str | None) -> None:
    with as_(http, given) as nobody:
        for path in (nodes("p"), "/compute/v1/projects/p", "/v1/projects/p", "/tpuctl/v1/ping"):
            assert nobody.get(path).status_code == 401


def test_anybody_may_call_a_server_that_was_started_so_but_govern_nothing(
    http: httpx.Client, plane: ControlPlane
) -> None:
    plane.access.anonymous = True
    with as_(http, None) as anybody:
        assert anybody.get(nodes("p")).status_code == 200
        assert anybody.get(TOKENS).status_code == 403
        assert anybody.get(nodes("p"), headers={"authorization": "Bearer wrong"}).status_code == 401
        assert anybody.get(nodes("p"), headers={"origin": "https://evil.example"}).status_code == 403
        assert anybody.get(nodes("p"), headers={"host": "evil.example"}).status_code == 403
        assert anybody.get(nodes("p"), headers={"host": "localhost:80"}).status_code == 200


def test_a_viewer_may_use_each_method_that_only_looks() -> None:
    for method in METHODS:
        needed = role_for(permission_of(method))
        looks = method.http == "GET" or method.id in ("operations.wait", "nodes.getGuestAttributes")
        assert needed is (Role.VIEWER if looks else Role.USER), method.id


def test_metadata_of_a_project_is_what_was_set_unless_it_has_changed_since_it_was_read(http: httpx.Client) -> None:
    path = "/compute/v1/projects/p"
    before = http.get(path).json()["commonInstanceMetadata"]
    assert before["items"] == []
    wanted = {"fingerprint": before["fingerprint"], "items": [{"key": "ssh-keys", "value": "me:ssh-rsa AAAA me"}]}
    assert http.post(f"{path}/setCommonInstanceMetadata", json=wanted).json()["status"] == "DONE"
    assert http.get(path).json()["commonInstanceMetadata"]["items"] == wanted["items"]
    assert http.get("/compute/v1/projects/q").json()["commonInstanceMetadata"]["items"] == []
    assert http.post(f"{path}/setCommonInstanceMetadata", json=wanted).status_code == 412
    twice = {"items": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}
    assert http.post(f"{path}/setCommonInstanceMetadata", json=twice).status_code == 400


def test_a_refresh_token_gets_an_access_token(http: httpx.Client) -> None:
    token = give(http, p="user")["token"]
    with as_(http, None) as client:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "x", "client_secret": "y"}
        assert client.post("/token", data=form).json()["access_token"] == token
        for wrong in ({"refresh_token": "wrong"}, {"refresh_token": ""}, {"grant_type": "password"}):
            refused = client.post("/token", data=form | wrong)
            assert (refused.status_code, "access_token" in refused.json()) == (400, False)
        assert client.post("/token", content=b"\xff" * 100_000).status_code == 400
