"""What is personal leaves texts and data, and what stands in its place is as valid: a scenario still makes sense."""

from __future__ import annotations

import ipaddress
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from holdfast.platform.redaction import Blank, PersonalData, _luhn, _mod_97

CARD, SPACED = "4111111111111111", "5500 0055 5555 5559"
IBAN = "DE89 3704 0044 0532 0130 00"


def test_a_card_keeps_its_shape_and_its_check_digit() -> None:
    for text in (CARD, SPACED, "3782 822463 10005"):
        other = PersonalData().without(f"pay {text}.").removeprefix("pay ").removesuffix(".")
        assert other != text
        assert re.sub(r"\d", "0", other) == re.sub(r"\d", "0", text)
        assert _luhn([int(each) for each in other if each.isdigit()]) == 0


def test_a_telephone_number_keeps_its_shape() -> None:
    other = PersonalData().without("+49 (0) 170 123-4567")
    assert re.fullmatch(r"\+\d\d \(\d\) \d{3} \d{3}-\d{4}", other)
    assert "123-4567" not in other


def test_an_account_keeps_its_country_its_shape_and_its_check_digits() -> None:
    for text in (IBAN, IBAN.replace(" ", ""), "GB29 NWBK 6016 1331 9268 19"):
        other = PersonalData().without(text)
        assert other != text
        assert other[:2] == text[:2]
        assert re.sub("[A-Z]", "A", re.sub(r"\d", "0", other)) == re.sub("[A-Z]", "A", re.sub(r"\d", "0", text))
        compact = other.replace(" ", "")
        assert _mod_97(compact[4:] + compact[:4]) == 1


KEYS = (
    "sk-ant-api03-abcdefghijklmnop_qrst",
    "sk_live_51Habcdefghijklmnop",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghijkl",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_known_service_becomes_a_mark(key: str) -> None:
    assert re.fullmatch(r"401 for redacted-[0-9a-f]{10}: \(refused\)", PersonalData().without(f"401 for {key}: (refused)"))
    assert "ask-" in PersonalData().without("ask-for-the-whole-sentence-please")


@pytest.mark.parametrize("text", ["from 203.0.113.9.", "[2001:470:1f0b::1]:8080", "fe80::1ff:fe23:4567:890a"])
def test_an_address_of_a_machine_becomes_a_reserved_one(text: str) -> None:
    other = PersonalData().without(text)
    [found] = re.findall(r"[0-9a-f]*(?:[.:]+[0-9a-f]+){3,}", other.replace("]:8080", "]"))
    address = ipaddress.ip_address(found)
    assert other != text
    assert address in ipaddress.ip_network("240.0.0.0/4" if address.version == 4 else "2001:db8::/32")


@pytest.mark.parametrize(
    "text", ["at 12:30:45", "std::vector", "127.0.0.1", "::1", "1.2.3", "300.1.2.3", "5 of 17", "2026-11-23T10:00:00Z"]
)
def test_what_names_nobody_stays(text: str) -> None:
    assert PersonalData().without(text) == text


def test_a_declared_value_is_the_same_in_its_field_and_in_every_text() -> None:
    personal = PersonalData(["name", "born"])
    case = {"Name": "Ada Lovelace", "born": "1815-12-10T07:30:00Z", "note": "Ada Lovelace wrote", "ref": "Ada"}
    personal.learn(case)
    other = personal.data(case)
    assert other["note"] == f"{other['Name']} wrote"
    assert other["Name"].startswith("redacted-")
    assert other["born"] == "2000-01-01T00:00:00Z"
    assert other["ref"] == "Ada", "it is a word of its own"
    personal.learn({})
    assert personal.without("Ada Lovelace") == "Ada Lovelace", "each record has its own values"


def test_a_declared_value_of_a_kind_stays_one_of_that_kind() -> None:
    personal = PersonalData(["id"])
    uuid, mail = "0190f3aa-1111-7222-8333-944444444444", "ada@example.org"
    found = personal.data({"id": [uuid, mail, CARD, 12, True, None]})["id"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found[0])
    assert found[0] != uuid
    assert found[1].endswith("@redacted.invalid")
    assert found[2] == personal.without(CARD)
    assert found[3:] == [0, True, None]


def test_a_card_that_is_a_number_is_another_card_and_times_stay() -> None:
    personal = PersonalData()
    card, time_ms = personal.data([int(CARD), 1_795_861_083_904])
    assert (len(str(card)), _luhn([int(each) for each in str(card)]), time_ms) == (16, 0, 1_795_861_083_904)
    assert card != int(CARD)


def test_texts_that_differ_only_in_what_is_personal_are_alike_when_it_is_blank() -> None:
    personal, blank = PersonalData(), Blank()
    text = f"a@b.example {CARD} {SPACED} {IBAN} 203.0.113.9 2001:470::1 +49 170 1234567"
    assert personal.without(text) != text
    assert blank.without(text) == blank.without(personal.without(text))


class Part(msgspec.Struct, tag="part"):
    text: str
    when: datetime | None = None


@dataclass
class Box:
    owner: str


@pytest.mark.parametrize(
    "made",
    [
        lambda text: (text,),
        lambda text: [(text,), ({"deep": (text,)},)],
        lambda text: MappingProxyType({"text": text}),
        lambda text: {"text": deque([text])},
        lambda text: ({"parts": (Part(text, datetime(2026, 1, 1, tzinfo=UTC)),)},),
        lambda text: Box(text),
        lambda text: {"set": frozenset([text])},
        lambda text: {7: text},
    ],
)
def test_data_of_every_form_loses_what_is_personal(made: Callable[[str], Any]) -> None:
    mail = "ann@example.com"
    found = msgspec.json.encode(PersonalData().data(made(f"write to {mail}, card {CARD}"))).decode()
    assert (mail in found, CARD in found, "write to" in found) == (False, False, True)
    personal = PersonalData(["name"])
    personal.learn(({"name": made("Ada Lovelace")},))
    assert "Ada Lovelace" not in personal.without("Ada Lovelace wrote")
    assert "Ada Lovelace" not in msgspec.json.encode(personal.data({"name": made("Ada Lovelace")})).decode()
