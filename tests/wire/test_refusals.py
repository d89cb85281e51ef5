"""Where a port may be, and what is said where it may not: everything here ends before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.app import invoke
from holdfast.errors import UsageError
from holdfast.service.access.identity import ANYBODY, Holder, Identity, Scope, read_token, read_tokens
from holdfast.wire import credential
from holdfast.wire.credential import Tls, Trust
from tests.wire.kit import FLOWS, TASKS

PEM = Path(__file__).parents[1] / "tools" / "localhost.pem"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--grpc", "0.0.0.0:0"), "Add --tls-cert and --tls-key and --tokens, or listen on 127.0.0.1"),
        (("--grpc", "0.0.0.0:0", "--tls-cert", str(PEM), "--tls-key", str(PEM)), "Add --tokens, or listen"),
        (("--grpc", "127.0.0.1:0", "--tls-cert", str(PEM)), "A certificate needs its key"),
        (("--grpc", "127.0.0.1:0", "--client-ca", str(PEM)), "--client-ca needs --tls-cert"),
        (("--grpc", "nonsense"), "'nonsense' is no address; write HOST:PORT"),
        (("--grpc", "127.0.0.1:0", "--token-file", "nowhere"), "The token nowhere cannot be read"),
        ((), "Without --grpc or --http HOST:PORT `holdfast serve` leads and executes nothing"),
    ],
)
def test_a_port_that_must_not_be_is_refused_in_words(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(["serve", f"{FLOWS}:echo", *words, "--port", "0", "--store", "runs.db"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--connect", "10.0.0.1:9090"), "without TLS all messages could be read on the way"),
        (("--connect", "10.0.0.1"), "is no address"),
        (("--connect", "127.0.0.1:1", "--store", "x.db"), "A worker with --connect has no store"),
    ],
)
def test_a_worker_that_cannot_connect_reports_it(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["worker", TASKS, *words]) == 2
    assert said in capsys.readouterr().err


def test_a_token_is_one_line_of_text(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    for bad in ("", "\n", "two\nlines", "ü", "x" * 5000):
        file.write_text(bad)
        with pytest.raises(UsageError, match="holds no token"):
            read_token(file)
    file.write_text(" good \n")
    assert read_token(file) == "good"


async def test_a_token_admits_only_who_says_exactly_it() -> None:
    identity = Identity("good")
    assert await credential.holder(identity, credential.metadata(Trust("good"))) == ANYBODY
    for sent in [(), (("authorization", "good"),), (("authorization", "Bearer goo"),), (("authorization", b"\xff"),)]:
        assert await credential.holder(identity, sent) is None
    assert await Identity().holder("") == ANYBODY


TOKENS = f"""
[clients.ops]
token = "{"c" * 32}"
may = "admin"

[clients.acme]
token = "{"t" * 32}"
tenant = "acme"
may = "admin"

[workers.acme]
token = "{"a" * 32}"
tenants = ["acme"]
tasks = ["echo"]
labels = ["gpu"]

[workers.all]
token = "{"b" * 32}"
tenants = ["*"]
tasks = ["*"]
"""


def private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


async def test_a_client_without_declared_grants_only_reads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = f'[clients.ops]\ntoken = "{"c" * 32}"\n[clients.boss]\ntoken = "{"b" * 32}"\nmay = "admin"\n'
    identity = Identity(tokens=read_tokens(private(tmp_path / "tokens.toml", said)))
    ops = await credential.holder(identity, credential.metadata(Trust("c" * 32)))
    assert ops is not None
    assert [ops.access.allows(grant) for grant in ("viewer", "operator", "reviewer", "admin")] == [True, False, False, False]
    (warned,) = caplog.messages
    assert "[clients.ops] of the tokens file has no may" in warned
    assert "c" * 32 not in warned


async def test_tokens_are_distinguished(tmp_path: Path) -> None:
    identity = Identity(tokens=read_tokens(private(tmp_path / "tokens.toml", TOKENS)))
    holders = [await credential.holder(identity, credential.metadata(Trust(letter * 32))) for letter in "cabx"]
    assert holders == [
        Holder("clients.ops"),
        Holder("workers.acme", False, Scope(frozenset({"acme"}), frozenset({"echo"}), frozenset({"gpu"}), frozenset())),
        Holder("workers.all", False, Scope(None, None, frozenset(), frozenset())),
        None,
    ]
    assert await identity.holder("") is None
    assert identity.tells_tenants_apart


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no tokens"),
        ("x", "is no TOML"),
        ("[people.ada]", "it has [people]"),
        ("clients.ops = 1", "clients.ops is no table"),
        ('[clients.ops]\ntoken = "short"', "[clients.ops] needs a token of 16 to"),
        (TOKENS.replace('"acme"]', "7]"), "tenants of [workers.acme] is a list of names"),
        (TOKENS.replace('tenant = "acme"', 'tenant = " "'), "tenant of [clients.acme] is a name"),
        (TOKENS.replace('tenants = ["acme"]', ""), '[workers.acme] must say its tenants = [...], or ["*"] for any'),
        (TOKENS.replace("tasks", "task"), "[workers.acme] has task, and may have token, tenants, tasks, labels, tags"),
        (TOKENS.replace("a" * 32, "c" * 32), "workers.acme and clients.ops have the same token"),
    ],
)
def test_tokens_that_cannot_be_distinguished_are_refused_in_words(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_tokens(private(tmp_path / "tokens.toml", text))
    assert said in refused.value.message


def test_one_shared_token_opens_no_port_that_others_can_reach(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="With the one of --token-file every worker could do what clients may"):
        credential.server_credentials("0.0.0.0:0", Identity("good"), Tls(PEM, PEM))
    with pytest.raises(UsageError, match="give one of them"):
        credential.server_credentials("127.0.0.1:0", Identity("good", {b"": ANYBODY}), Tls())
