"""Keys of tenants in a file, and what is encrypted with them."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from holdfast.errors import CorruptHistory, KeyMissing, UsageError
from holdfast.settings import Settings, load
from holdfast.storage import sealing_of
from holdfast.stores.encryption import AesCodec, KeyFile


def key(byte: int) -> str:
    return base64.b64encode(bytes([byte]) * 32).decode()


def keys_in(path: Path, text: str) -> KeyFile:
    path.write_text(text)
    path.chmod(0o600)
    return KeyFile(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def test_a_tenant_s_content_takes_that_tenant_s_key(file: Path) -> None:
    codec = AesCodec(keys_in(file, f'default = "{key(1)}"\nacme = "{key(2)}"\n'))
    sealed = codec.encrypt("acme", b"card 4711")
    assert b"4711" not in sealed
    assert codec.decrypt(sealed) == b"card 4711"
    assert codec.encrypt("acme", b"card 4711") != sealed
    assert codec.encrypt("acme", b"card 4711", alike=True) == codec.encrypt("acme", b"card 4711", alike=True)
    with pytest.raises(KeyMissing, match="'globex' has no key"):
        codec.encrypt("globex", b"x")


def test_the_first_key_encrypts_and_all_decrypt_until_they_are_deleted(file: Path) -> None:
    old = AesCodec(keys_in(file, f'default = "{key(1)}"\nacme = "{key(2)}"\n')).encrypt("acme", b"old")
    turned = AesCodec(keys_in(file, f'default = "{key(1)}"\nacme = ["{key(3)}", "{key(2)}"]\n'))
    new = turned.encrypt("acme", b"new")
    assert (turned.decrypt(old), turned.decrypt(new), old[:8] != new[:8]) == (b"old", b"new", True)
    erased = AesCodec(keys_in(file, f'default = "{key(1)}"\nacme = "{key(3)}"\n'))
    assert erased.decrypt(new) == b"new"
    with pytest.raises(KeyMissing, match="was deleted"):
        erased.decrypt(old)


def test_a_tenant_that_is_new_in_the_file_needs_no_restart(file: Path) -> None:
    codec = AesCodec(keys_in(file, f'default = "{key(1)}"\n'))
    file.write_text(f'default = "{key(1)}"\nacme = "{key(2)}"\n')
    os.utime(file, ns=(1, 1))
    assert codec.decrypt(codec.encrypt("acme", b"x")) == b"x"


def test_what_was_changed_is_no_content(file: Path) -> None:
    codec = AesCodec(keys_in(file, f'default = "{key(1)}"\nacme = "{key(2)}"\n'))
    sealed = codec.encrypt("acme", b"x")
    for wrong in (sealed[:-1] + bytes([sealed[-1] ^ 1]), sealed[:10], sealed[:25]):
        with pytest.raises(CorruptHistory):
            codec.decrypt(wrong)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("default =", "no TOML"),
        (f'acme = "{key(2)}"', "'default' has no key"),
        ('default = "c2hvcnQ="', "32 bytes"),
        ("default = 7", "32 bytes"),
        (f'default = "{key(1)}"\nacme = "{key(1)}"', "twice"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_refused_in_words_and_no_key_is_among_them(file: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        keys_in(file, text)
    assert key(1) not in str(refused.value)
    assert key(2) not in str(refused.value)


def test_a_key_file_is_its_account_s_and_is_shown_nowhere(file: Path) -> None:
    assert key(1) not in repr(keys_in(file, f'default = "{key(1)}"'))
    file.chmod(0o644)
    with pytest.raises(UsageError, match="open to other users"):
        KeyFile(file)


def test_nothing_is_encrypted_unless_it_is_asked_for(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not sealing_of(Settings()).is_on
    keys_in(file, f'default = "{key(1)}"')
    assert not sealing_of(Settings(key_file=file)).is_on
    monkeypatch.setenv("HOLDFAST_ENCRYPT", "payloads")
    with pytest.raises(UsageError, match="encrypt takes a key_file"):
        load(tmp_path)
    monkeypatch.setenv("HOLDFAST_KEY_FILE", str(file))
    assert sealing_of(load(tmp_path)).is_on
