"""What expressions mean, rule by rule. Where GitHub's runner and its TypeScript evaluator differ, the runner counts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from holdfast.actions.expressions import ExpressionError, parse, to_text

CONTEXTS: dict[str, Any] = {
    "ship": {
        "name": "Vesta",
        "Crew": [{"name": "Ada", "age": 36}, {"name": "Grace", "pets": ["cat", "owl"]}, "a stowaway", None],
        "cargo": {"tea": {"tons": 3}, "salt": {"tons": 5}, "empty": {}},
        "decks": [[1, 2], [3], []],
        "15": "fifteen",
        "null": "a key called null",
        "": "no name",
    },
    "list": ["zero", "one", "two"],
    "numbers": [0, 1, 2.5, -3],
    "env": {"HOME": "/root", "Path": "/bin"},
    "nothing": None,
    "yes": True,
    "big": 2**60,
}

RULES: dict[str, list[tuple[str, Any]]] = {
    "blank text is null": [("", None), (" \t\r\n", None)],
    "literals": [
        ("null", None),
        ("true", True),
        ("false", False),
        ("'text'", "text"),
        ("''", ""),
        ("42", 42),
        ("-1.5", -1.5),
        ("+2", 2),
        (".5", 0.5),
        ("5.", 5),
        ("1e3", 1000),
        ("2E-2", 0.02),
        ("0xfF", 255),
        ("0o17", 15),
        ("Infinity", math.inf),
        ("+Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e999", math.inf),
    ],
    "every doubled quote in a string is one quote": [
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("'a''b''c'", "a'b'c"),
        ("''''''", "''"),
    ],
    "hexadecimal and octal numbers have 32 bits, the first of which is the sign": [
        ("0x7fffffff", 2**31 - 1),
        ("0xFFFFFFFF", -1),
        ("0x80000000", -(2**31)),
        ("0o37777777777", -1),
        ("'0xFFFFFFFF' == -1", True),
        ("'0x100000000' == 4294967296", False),
        ("'0X1F' == 31", False),
        ("'0b1' == 1", False),
    ],
    "all of Unicode's blanks separate": [("1\u00a0==\u30001\u2028", True), ("\x851", 1)],
    "contexts and keys have no case, but for the environment": [
        ("SHIP.NAME", "Vesta"),
        ("ship.crew[0].Name", "Ada"),
        ("ship['NAME']", "Vesta"),
        ("env.HOME", "/root"),
        ("ENV.HOME", "/root"),
        ("env.home", None),
        ("env['Path']", "/bin"),
        ("env.PATH", None),
        ("(env).path", None),
        ("fromJSON(toJSON(env)).path", "/bin"),
    ],
    "a key that looks like a keyword is a key": [("ship.null", "a key called null"), ("ship.true", None)],
    "what is missing is null, however far one goes": [
        ("ship.nobody", None),
        ("ship.nobody.at.all[3]", None),
        ("nothing.x", None),
        ("yes.x", None),
        ("'text'=='text' && ('text').length", None),
        ("list.name", None),
        ("list[3]", None),
    ],
    "an index is rounded down, and a text may be one": [
        ("list[1]", "one"),
        ("list[1.9]", "one"),
        ("list['2']", "two"),
        ("list[' 0x1 ']", "one"),
        ("list[true]", "one"),
        ("list[null]", "zero"),
        ("list['']", "zero"),
        ("list[-0.5]", None),
        ("list[-1]", None),
        ("list[NaN]", None),
        ("list[Infinity]", None),
        ("list[1e300]", None),
        ("list['one']", None),
        ("list[list]", None),
    ],
    "a key of an object is made text": [
        ("ship[15]", "fifteen"),
        ("ship[1.5e1]", "fifteen"),
        ("ship[null]", "no name"),
        ("ship[ship]", None),
        ("ship[format('{0}', 'name')]", "Vesta"),
    ],
    "a star gives the items of an array and the values of an object": [
        ("numbers.*", [0, 1, 2.5, -3]),
        ("numbers[*]", [0, 1, 2.5, -3]),
        ("ship.cargo.*.tons", [3, 5]),
        ("ship.decks.*.*", [1, 2, 3]),
    ],
    "a star of what is no collection is empty": [("nothing.*", []), ("yes.*", []), ("('text').*", []), ("(1).*.x", [])],
    "after a star, steps go into each item and leave out those without the key": [
        ("ship.crew.*.name", ["Ada", "Grace"]),
        ("ship.crew.*.age", [36]),
        ("ship.crew.*.pets", [["cat", "owl"]]),
        ("ship.crew.*.pets[0]", ["cat"]),
        ("ship.crew.*.pets[7]", []),
        ("ship.crew.*.pets.*", ["cat", "owl"]),
        ("ship.decks.*[0]", [1, 3]),
        ("ship.decks.*[-1]", []),
        ("ship.cargo.*[ship]", []),
        ("(ship.decks.*)[0]", [1, 3]),
        ("fromJSON(toJSON(ship.decks.*))[0]", [1, 2]),
    ],
    "values of one kind are compared as they are": [
        ("1 == 1.0", True),
        ("true == true", True),
        ("true > false", True),
        ("null == null", True),
        ("null < null", False),
        ("null <= null", True),
        ("0 == -0", True),
        ("big == 1152921504606846977", True),
    ],
    "values of two kinds are compared as numbers": [
        ("null == ''", True),
        ("'' == false", True),
        ("'0' == false", True),
        ("'true' == true", False),
        ("null == 0", True),
        ("null == false", True),
        ("true == 1", True),
        ("true == '1'", True),
        ("' 1.0\t' == 1", True),
        ("'1e1' == 10", True),
        ("'one' == 1", False),
        ("'Infinity' == Infinity", True),
        ("'infinity' == Infinity", False),
        ("'1_0' == 10", False),
        ("'\x1c1' == 1", False),
        ("null < 1", True),
        ("'2' > true", True),
    ],
    "strings are compared without case": [
        ("'abc' == 'ABC'", True),
        ("'abc' != 'ABC'", False),
        ("'a' < 'B'", True),
        ("'B' > 'a'", True),
        ("'_' > 'a'", True),
        ("'10' < '9'", True),
        ("'10' < 9", False),
        ("'' < 'a'", True),
    ],
    "case is a matter of single characters": [
        ("'straße' == 'STRASSE'", False),
        ("'Ä' == 'ä'", True),
        ("'ς' == 'Σ'", True),
        ("'ı' == 'I'", False),
        ("'İ' == 'i'", False),
        ("'\u1fb3' == '\u1fbc'", True),
        ("contains('STRASSE', 'ß')", False),
        ("endsWith('ΣΊΣΥΦΟΣ', 'ς')", True),
        ("'😀' < '\ue000'", True),  # by UTF-16 units
    ],
    "NaN equals nothing and is neither less nor greater": [
        ("NaN == NaN", False),
        ("NaN != NaN", True),
        ("NaN < 1", False),
        ("NaN >= NaN", False),
        ("'x' <= 1", False),
    ],
    "a collection equals only itself": [
        ("ship == ship", True),
        ("ship.crew == ship.crew", True),
        ("fromJSON('[]') == fromJSON('[]')", False),
        ("ship.* == ship.*", False),
        ("fromJSON('{}') == '{}'", False),
        ("list == 'Array'", False),
        ("list < list", False),
        ("list <= list", True),
        ("list == null", False),
    ],
    "null, false, 0, NaN and the empty string are false": [
        ("!null", True),
        ("!false", True),
        ("!0", True),
        ("!-0", True),
        ("!NaN", True),
        ("!''", True),
        ("!'0'", False),
        ("!'false'", False),
        ("!fromJSON('[]')", False),
        ("!fromJSON('{}')", False),
        ("!nothing.*", False),
        ("!!Infinity", True),
    ],
    "&& and || give back an operand": [
        ("'a' && 'b'", "b"),
        ("'' && 'b'", ""),
        ("'a' || 'b'", "a"),
        ("0 || null", None),
        ("0 || '' || 'c' || 'd'", "c"),
        ("1 && 0 && 2", 0),
        ("ship.nobody || 'default'", "default"),
    ],
    "what does not decide is not worked out": [
        ("true || fromJSON('')", True),
        ("false && fromJSON('')", False),
        ("case(true, 1, fromJSON(''))", 1),
        ("case(false, fromJSON(''), 2)", 2),
        ("format('no place', fromJSON(''))", "no place"),
        ("contains(fromJSON('[]'), fromJSON(''))", False),
        ("startsWith(ship, fromJSON(''))", False),
        ("join(fromJSON('[1]'), fromJSON(''))", "1"),
        ("join('one', fromJSON(''))", "one"),
    ],
    "! binds tighter than comparison, < than ==, == than &&, && than ||": [
        ("!false == true", True),
        ("!(false == true)", True),
        ("!yes.x", True),
        ("1 < 2 == 2 > 1", True),
        ("true == 2 > 1", True),
        ("1 == 1 && 2 == 3", False),
        ("true || false && false", True),
        ("(true || false) && false", False),
        ("3 > 2 > 1", False),
        ("1 == 1 == true", True),
        ("1 != 1 == 0", True),
    ],
    "brackets of one chain make no difference": [("1 && (2 && 3)", 3), ("((0 || 0) || 7)", 7), ("(((1)))", 1)],
    "case gives the value of the first condition that is true, or the last": [
        ("case(true, 'a', 'b')", "a"),
        ("case(false, 'a', 'b')", "b"),
        ("case(false, 1, 1 == 1, 2, 3)", 2),
        ("CASE(false, 1, false, 2, 3)", 3),
    ],
    "contains looks in a text, or for an item that equals": [
        ("contains('Hello World', 'WORLD')", True),
        ("contains('abc', 'd')", False),
        ("contains('abc', '')", True),
        ("contains(1234, 23)", True),
        ("contains(true, 'ru')", True),
        ("contains(null, null)", True),
        ("contains(list, 'ONE')", True),
        ("contains(list, 'on')", False),
        ("contains(numbers, '1')", True),
        ("contains(numbers, null)", True),
        ("contains(numbers, ' 2.5 ')", True),
        ("contains(ship.decks, ship.decks[0])", True),
        ("contains(ship.crew.*.name, 'grace')", True),
        ("contains(ship, 'name')", False),
        ("contains('Array', list)", False),
    ],
    "startsWith and endsWith look at texts": [
        ("startsWith('refs/heads/main', 'REFS/')", True),
        ("startsWith('abc', 'b')", False),
        ("endsWith('main.PY', '.py')", True),
        ("endsWith(123, 3)", True),
        ("startsWith(null, '')", True),
        ("startsWith(list, 'Arr')", False),
        ("endsWith('Object', ship)", False),
    ],
    "format puts values into places": [
        ("format('{0}-{1}-{0}', 'a', 2)", "a-2-a"),
        ("format('{{0}}')", "{0}"),
        ("format('{{{0}}}', 'x')", "{x}"),
        ("format('{00}{000001}', 'a', 'b')", "ab"),
        ("format('no place')", "no place"),
        ("format('')", ""),
        ("format('{0}', null)", ""),
        ("format('{0}|{1}', list, ship)", "Array|Object"),
        ("format('{0}', '{1}')", "{1}"),
        ("format(12, 1)", "12"),
    ],
    "join puts the items of an array into one text": [
        ("join(list)", "zero,one,two"),
        ("join(list, ' + ')", "zero + one + two"),
        ("join(list, '')", "zeroonetwo"),
        ("join(list, null)", "zeroonetwo"),
        ("join(list, 0)", "zero0one0two"),
        ("join(list, list)", "zero,one,two"),
        ("join(ship.crew)", "Object,Object,a stowaway,"),
        ("join(fromJSON('[]'))", ""),
        ("join(fromJSON('[null, true, 1e21, [1]]'), ' ')", " true 1E+21 Array"),
        ("join('alone', ';')", "alone"),
        ("join(ship)", ""),
    ],
    "toJSON writes JSON in steps of two blanks": [
        ("toJSON(null)", "null"),
        ("toJSON('')", '""'),
        ("toJSON(1.50)", "1.5"),
        ("toJSON(1e21)", "1E+21"),
        ("toJSON(NaN)", "NaN"),
        ("toJSON(fromJSON('[]'))", "[]"),
        ("toJSON(fromJSON('{}'))", "{}"),
        ("toJSON(ship.decks)", "[\n  [\n    1,\n    2\n  ],\n  [\n    3\n  ],\n  []\n]"),
        ("toJSON(ship.cargo.tea)", '{\n  "tons": 3\n}'),
        ("toJSON(env)", '{\n  "HOME": "/root",\n  "Path": "/bin"\n}'),
        ("toJSON(list.*)", '[\n  "zero",\n  "one",\n  "two"\n]'),
        ("toJSON('\"\\/\b\f\n\r\t\x01\x7f')", '"\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f"'),
        ("toJSON('é😀\x85\u2028\u2029')", '"é😀\\u0085\\u2028\\u2029"'),
        ("toJSON('\ud800')", '"\\ud800"'),
    ],
    "fromJSON reads JSON": [
        ("fromJSON('true')", True),
        ("fromJSON(' \t\r\n1.5e1 ')", 15),
        ("fromJSON('\"\\u00e9\"')", "é"),
        ("fromJSON('[1, {\"a\": null}]')[1]", {"a": None}),
        ("fromJSON(42)", 42),
        ("fromJSON(true)", True),
        ("fromJSON('1e999')", math.inf),
        ("fromJSON('12345678901234567890') == 12345678901234567890", True),
    ],
    "of JSON's keys the first of several cases counts, and the last of equal ones; they stay in their order": [
        ('fromJSON(\'{"a": 1, "A": 2}\')', {"a": 1}),
        ('fromJSON(\'{"a": 1, "a": 2}\')', {"a": 2}),
        ('join(fromJSON(\'{"10": "x", "9": "y", "constructor": "z"}\').*)', "x,y,z"),
        ("fromJSON('{\"constructor\": 1}').constructor", 1),
        ("fromJSON('{}').constructor", None),
    ],
    "names of functions have no case": [("CONTAINS('a', 'A')", True), ("tojson(1)", "1"), ("fromJson ('2')", 2)],
}


@pytest.mark.parametrize("rule", RULES)
def test_an_expression_means_what_github_says(rule: str) -> None:
    for text, expected in RULES[rule]:
        found = parse(text).evaluate(CONTEXTS)
        # True is 1 to Python, not to GitHub.
        assert (found, type(found) is bool) == (expected, type(expected) is bool), text


NUMBERS = [
    (0.0, "0"),
    (-0.0, "0"),
    (1.0, "1"),
    (-15, "-15"),
    (0.1, "0.1"),
    (0.1 + 0.2, "0.3"),
    (1 / 3, "0.333333333333333"),
    (0.0001, "0.0001"),
    (0.00001, "1E-05"),
    (123456789012345.0, "123456789012345"),
    (1e15, "1E+15"),
    (1234567890123456.0, "1.23456789012346E+15"),
    (1e21, "1E+21"),
    (1e-300, "1E-300"),
    (10**400, "Infinity"),
    (-(10**400), "-Infinity"),
    (math.nan, "NaN"),
]


@pytest.mark.parametrize(("number", "text"), NUMBERS, ids=[text for _, text in NUMBERS])
def test_a_number_is_written_with_fifteen_digits(number: float, text: str) -> None:
    assert to_text(number) == text


def test_a_context_is_handed_out_as_it_is() -> None:
    assert parse("ship.crew").evaluate(CONTEXTS) is CONTEXTS["ship"]["Crew"]


def test_whole_numbers_read_without_a_point() -> None:
    for text in ("5", "5.0", "0x5", "fromJSON('5.0')", "case(true, 5e0, 1)"):
        assert repr(parse(text).evaluate({})) == "5"
    # From here on a double no longer tells one whole number from the next.
    assert type(parse("9007199254740992").evaluate({})) is float


def test_status_functions_come_from_outside() -> None:
    asked = {"success": lambda: False, "failure": lambda: True, "cancelled": lambda: False, "always": lambda: True}
    assert parse("!SUCCESS() && Failure() && !cancelled() && always()").evaluate({}, asked) is True


def test_what_is_not_json_data_is_a_mistake_of_the_program() -> None:
    with pytest.raises(TypeError, match="plain JSON data, not object"):
        parse("thing == 1").evaluate({"thing": object()})  # type: ignore[dict-item]


def test_names_says_what_is_read_and_called() -> None:
    text = "contains(needs.build.outputs['x'], matrix[env.K].*.z) && (github || inputs.a).b && Always()"
    names = parse(text, 100).names
    assert [(each.context, each.keys, each.offset - 100) for each in names.readings] == [
        ("needs", ("build", "outputs", "x"), 9),
        ("matrix", (None, None, "z"), text.index("matrix")),
        ("env", ("K",), text.index("env")),
        ("github", (), text.index("github")),
        ("inputs", ("a",), text.index("inputs")),
    ]
    assert [(each.function, each.offset - 100) for each in names.calls] == [("contains", 0), ("always", text.index("Always"))]
    assert names.contexts == {"needs", "matrix", "env", "github", "inputs"}
    assert names.functions == {"contains", "always"}
    assert parse("steps[0]['1'][true]").names.readings[0].keys == ("0", "1", "true")


def test_a_name_that_is_not_there_is_a_mistake_wherever_it_stands() -> None:
    for text in ("true || nobody.x", "case(true, 1, nobody)", "true || failure()"):
        with pytest.raises(ExpressionError):
            parse(text).evaluate({"github": {}})
