"""The messages in Python are those of wire.proto."""

from __future__ import annotations

from pathlib import Path

from grpc_tools import protoc

import holdfast

SOURCES = Path(holdfast.__file__).parents[1]


def test_the_generated_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    """`make wire` makes them."""
    words = ["protoc", f"-I{SOURCES}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", "holdfast/wire/wire.proto"]
    assert protoc.main(words) == 0
    for name in ("wire_pb2.py", "wire_pb2.pyi"):
        generated = (tmp_path / "holdfast" / "wire" / name).read_text()
        assert generated == (SOURCES / "holdfast" / "wire" / name).read_text(), f"{name} is old; make wire"
